// SPDX-License-Identifier: Apache-2.0
// Values reach the struct; what is refused is tested on the program itself, in
// tests/e2e/usage_test.cc.
#include "engine/cli/flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "quant/simd_target.h"
#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Flags Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "lowmem-run");
  absl::StatusOr<ParsedCommandLine> line =
      ParseCommandLine(static_cast<int>(args.size()), args.data());
  EXPECT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line.ok() && line->flags.has_value());
  return line.ok() && line->flags ? *line->flags : Flags();
}

TEST(FlagsTest, DefaultsAreThoseOfTheContract) {
  const Flags flags = Parse({"-m", "x", "generate", "-p", "a"});
  EXPECT_EQ(flags.command, "generate");
  EXPECT_EQ(flags.global.mode, Mode::kAuto);
  EXPECT_FALSE(flags.global.ram_budget_bytes.has_value());
  EXPECT_EQ(flags.generate.options.max_new_tokens, 256);
  EXPECT_EQ(flags.generate.options.sampling.seed, 0u);
  EXPECT_FALSE(flags.generate.options.sampling.temperature.has_value())
      << "the model's own setting counts";
}

TEST(FlagsTest, EverySamplingOptionIsTaken) {
  const Flags flags = Parse({"-m",
                             "x",
                             "generate",
                             "-p",
                             "a",
                             "--temperature",
                             "0.5",
                             "--top-k",
                             "7",
                             "--top-p",
                             "0.9",
                             "--min-p",
                             "0.05",
                             "--repetition-penalty",
                             "1.1",
                             "--presence-penalty",
                             "-0.5",
                             "--frequency-penalty",
                             "0.25",
                             "--seed",
                             "3",
                             "-n",
                             "-1",
                             "--ignore-eos",
                             "--ctx",
                             "99",
                             "--prefill-chunk",
                             "16"});
  const SamplingOptions& sampling = flags.generate.options.sampling;
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 7u);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.min_p, 0.05f);
  EXPECT_EQ(sampling.repetition_penalty, 1.1f);
  EXPECT_EQ(sampling.presence_penalty, -0.5f);
  EXPECT_EQ(sampling.frequency_penalty, 0.25f);
  EXPECT_EQ(sampling.seed, 3u);
  EXPECT_EQ(flags.generate.options.max_new_tokens, -1);
  EXPECT_TRUE(flags.generate.options.ignore_eos);
  EXPECT_EQ(flags.generate.max_context_tokens, 99u);
  EXPECT_EQ(flags.generate.prefill_chunk_tokens, 16u);
}

TEST(FlagsTest, GlobalOptionsAreTakenOnEitherSide) {
  const Flags flags =
      Parse({"-t", "2", "--mode", "copy", "info", "-m", "x", "--ram-budget",
             "1.5G", "--json", "-q", "--stats"});
  EXPECT_EQ(flags.global.model_path, "x");
  EXPECT_EQ(flags.global.num_threads, 2u);
  EXPECT_EQ(flags.global.mode, Mode::kCopy);
  EXPECT_EQ(flags.global.ram_budget_bytes, 1536u << 20);
  EXPECT_TRUE(flags.global.json && flags.global.quiet && flags.global.stats);
}

// Text that looks like something else to a parser.
TEST(FlagsTest, PromptsAndStopsAreTakenToTheLetter) {
  const Flags flags = Parse({"-m", "x", "generate", "-p", "--json", "--stop",
                             "[a,b]", "--stop", "\"q\"", "--stop", "info"});
  EXPECT_EQ(flags.generate.prompt.text, "--json");
  EXPECT_FALSE(flags.global.json);
  EXPECT_THAT(flags.generate.options.stop_texts,
              ElementsAre("[a,b]", "\"q\"", "info"));
  EXPECT_EQ(Parse({"-m", "x", "generate", "-p", ""}).generate.prompt.text, "");
  EXPECT_EQ(Parse({"-m", "x", "generate", "-p", "convert"}).command,
            "generate");
}

TEST(FlagsTest, BenchTakesTokenCountsWhereGenerateTakesText) {
  const Flags flags =
      Parse({"-m", "x", "bench", "-p", "100", "-n", "20", "--modes", "copy",
             "--budgets", "1M,2M", "--repeat", "3"});
  EXPECT_EQ(flags.bench.num_prompt_tokens, 100u);
  EXPECT_EQ(flags.bench.num_new_tokens, 20u);
  EXPECT_THAT(flags.bench.modes, ElementsAre(Mode::kCopy));
  EXPECT_THAT(flags.bench.budgets_bytes, ElementsAre(1u << 20, 2u << 20));
  EXPECT_EQ(flags.bench.num_repeats, 3u);
}

TEST(FlagsTest, HelpVersionAndManualAreTexts) {
  for (const char* option : {"--help", "--version", "--help-man"}) {
    const char* args[] = {"lowmem-run", option};
    ASSERT_OK_AND_ASSIGN(const ParsedCommandLine line,
                         ParseCommandLine(2, args));
    EXPECT_FALSE(line.flags.has_value());
    EXPECT_EQ(line.text.back(), '\n');
  }
}

TEST(FlagsTest, VersionNamesTheInstructionSetInUse) {
  const char* args[] = {"lowmem-run", "--version"};
  ASSERT_OK_AND_ASSIGN(const ParsedCommandLine line, ParseCommandLine(2, args));
  const SimdTarget target = ChosenSimdTarget();
  EXPECT_THAT(line.text, HasSubstr(absl::StrCat(
                             "\ninstruction set: ", target.name, " (")));
  EXPECT_EQ(absl::StrContains(line.text, "no fused multiply-add"),
            !target.has_fused_multiply_add);
}

}  // namespace
}  // namespace lowmem::cli
