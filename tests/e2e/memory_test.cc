// SPDX-License-Identifier: Apache-2.0
// Memory: budgets that are too small are refused with exit code 6 before a
// weight is read, and so is a machine that has none to give.
#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Generate(const std::string& budget,
                                  const std::string& mode) {
  return {"-m", Tiny("llama"), "--ram-budget", budget,  "--mode",
          mode, "generate",    "--prompt-ids", "1,2,3", "-n",
          "2",  "--json"};
}

TEST(MemoryTest, BudgetOfOneByteIsRefusedWithTheLargestItem) {
  for (const char* mode : {"mmap", "copy"}) {
    const SubprocessResult result = RunCli(Generate("1", mode));
    EXPECT_TRUE(IsRefusal(result, 6, "1 B"));
    EXPECT_THAT(result.err, HasSubstr("largest")) << "names the largest item";
  }
}

TEST(MemoryTest, LeastBudgetOfInfoIsEnoughAndOneByteLessIsNot) {
  const SubprocessResult info = RunCli({"-m", Tiny("llama"), "--json", "info"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const uint64_t least =
      At(ParseJsonText(info.out), "min_budget_bytes").AsUint64().value_or(0);
  ASSERT_GT(least, 0u);
  const auto open = [](uint64_t budget) {
    return RunCli({"-m", Tiny("llama"), "--ram-budget", absl::StrCat(budget),
                   "generate", "--prompt-ids", "1", "-n", "1"});
  };
  EXPECT_EQ(open(least).exit_code, 0) << open(least).err;
  EXPECT_EQ(open(least - 1).exit_code, 6);
}

TEST(MemoryTest, BudgetThatEndsTheContextIsNoFailure) {
  const SubprocessResult info = RunCli({"-m", Tiny("llama"), "--json", "info"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const uint64_t least =
      At(ParseJsonText(info.out), "min_budget_bytes").AsUint64().value_or(0);
  // A prompt of 3 tokens needs less than the 16 that info counts with, which
  // leaves room for another page of keys and values.
  std::vector<std::string> args = {
      "-m",       Tiny("llama"),  "--ram-budget", absl::StrCat(least),
      "generate", "--prompt-ids", "1,2,3",        "-n",
      "-1",       "--ignore-eos", "--json"};
  const SubprocessResult result = RunCli(args);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_EQ(At(json, "stop_reason").string(), "context");
  EXPECT_EQ(At(json, "ids").items().size(), 29u);
  EXPECT_EQ(result.err,
            "stopped at the context of 32 tokens, the longest that fits the "
            "memory budget\n");
  args.push_back("-q");
  EXPECT_EQ(RunCli(args).err, "");
  // A context that was asked for is no surprise.
  args.back() = "--ctx";
  args.push_back("12");
  const SubprocessResult asked = RunCli(args);
  EXPECT_EQ(asked.exit_code, 0);
  EXPECT_EQ(asked.err, "");
  args.back() = "17";
  EXPECT_TRUE(IsRefusal(RunCli(args), 6, "a context of 16 tokens fits"));
}

// A text that ends early for the sake of speed says what would have prevented
// it, and that is true to the token.
TEST(MemoryTest, ContextThatWasChosenNamesTheLongestThatFits) {
  const SubprocessResult least_info =
      RunCli({"-m", Tiny("llama"), "--json", "info"});
  ASSERT_EQ(least_info.exit_code, 0) << least_info.err;
  const uint64_t least = At(ParseJsonText(least_info.out), "min_budget_bytes")
                             .AsUint64()
                             .value_or(0);
  const std::vector<std::string> model = {
      "-m",     Tiny("llama"),  "--mode",
      "stream", "--ram-budget", absl::StrCat(least + 100000)};
  const auto run = [&model](std::vector<std::string> args) {
    args.insert(args.begin(), model.begin(), model.end());
    return RunCli(args);
  };
  const SubprocessResult info = run({"--json", "info"});
  ASSERT_EQ(info.exit_code, 0) << info.err;
  const JsonValue json = ParseJsonText(info.out);
  const JsonValue& stream = At(At(json, "forecast"), "stream");
  const uint64_t longest =
      At(stream, "longest_context_tokens").AsUint64().value_or(0);
  ASSERT_GT(longest, At(stream, "context_tokens").AsUint64().value_or(0));
  const std::vector<std::string> generate = {
      "generate", "--prompt-ids", "1,2,3", "-n", "-1", "--ignore-eos"};
  const SubprocessResult chosen = run(generate);
  ASSERT_EQ(chosen.exit_code, 0) << chosen.err;
  EXPECT_THAT(chosen.err, HasSubstr("stopped at the context of "));
  EXPECT_THAT(chosen.err,
              HasSubstr(absl::StrCat("chosen under the memory budget; --ctx up "
                                     "to ",
                                     longest, " fits\n")));
  const auto with_context = [&](uint64_t context_tokens) {
    std::vector<std::string> args = generate;
    args.insert(args.end(), {"--ctx", absl::StrCat(context_tokens)});
    return run(args);
  };
  const SubprocessResult asked = with_context(longest);
  EXPECT_EQ(asked.exit_code, 0) << asked.err;
  EXPECT_EQ(asked.err, "");
  EXPECT_TRUE(
      IsRefusal(with_context(longest + 1), 6,
                absl::StrCat("a context of ", longest, " tokens fits")));
}

TEST(MemoryTest, BudgetThatFitsIsReportedAndTakesCopy) {
  const SubprocessResult result =
      RunCli({"-m", Tiny("llama"), "--ram-budget", "1.5G", "generate",
              "--prompt-ids", "1,2,3", "-n", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_EQ(At(At(json, "stats"), "ram_budget_bytes").AsUint64(), 1610612736u);
  EXPECT_EQ(At(At(json, "stats"), "mode").string(), "copy");
}

TEST(MemoryTest, AutomaticBudgetIsANumber) {
  const SubprocessResult result = RunCli(Generate("auto", "mmap"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_GT(At(At(json, "stats"), "ram_budget_bytes").AsUint64().value_or(0),
            0u);
}

// Whatever fails first, an allocation, a mapping or a thread, the end is the
// same.
TEST(MemoryTest, AMachineWithoutMemoryIsCode6) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  int num_refused = 0;
  for (uint64_t mib = 16; mib <= 256; mib += 12) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = Generate("auto", "copy");
    options.address_space_bytes = mib << 20;
    const SubprocessResult result = RunSubprocess(options);
    if (result.exit_code == 0) continue;
    EXPECT_TRUE(IsRefusal(result, 6, "")) << mib << " MiB";
    ++num_refused;
  }
  EXPECT_GT(num_refused, 0) << "the smallest limit holds the program only just";
}

}  // namespace
}  // namespace lowmem::testing
