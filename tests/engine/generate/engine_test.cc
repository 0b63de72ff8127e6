// SPDX-License-Identifier: Apache-2.0
// Engine over the tiny models: the golden texts in every mode, thread count and
// chunking, and what the model's own files decide.
#include "lowmem/engine.h"

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/generate/model_footprint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/file.h"
#include "tests/engine/generate/engine_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Continue;
using ::lowmem::testing::EngineTest;
using ::lowmem::testing::GoldenText;
using ::lowmem::testing::GoldenTexts;
using ::lowmem::testing::IdsOf;
using ::lowmem::testing::IsOk;
using ::lowmem::testing::kTiny;
using ::lowmem::testing::OpenOrFail;
using ::lowmem::testing::OptionsFor;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

struct Variant {
  const char* family;
  Mode mode;
  uint32_t num_threads;
  uint32_t chunk_tokens;
};

class GoldenTextTest : public ::testing::TestWithParam<Variant> {};

TEST_P(GoldenTextTest, GreedyTextIsTheReferences) {
  const Variant& variant = GetParam();
  EngineOptions options = OptionsFor(variant.family);
  options.mode = variant.mode;
  options.num_threads = variant.num_threads;
  options.prefill_chunk_tokens = variant.chunk_tokens;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                       Engine::Open(options));
  EXPECT_EQ(engine->mode(), variant.mode);
  const std::vector<GoldenText> golden = GoldenTexts(variant.family);
  ASSERT_EQ(golden.size(), 2);
  for (const GoldenText& prompt : golden) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                         engine->NewSession());
    ASSERT_THAT(session->AppendText(prompt.text), IsOk());
    ASSERT_THAT(session->ids(), ElementsAreArray(prompt.ids));
    GenerateOptions generate;
    generate.max_new_tokens = static_cast<int64_t>(prompt.greedy.size());
    std::string handed_out;
    ASSERT_OK_AND_ASSIGN(
        const GenerateResult result,
        session->Generate(generate, [&](absl::string_view text) {
          absl::StrAppend(&handed_out, text);
          return true;
        }));
    EXPECT_THAT(result.ids, ElementsAreArray(prompt.greedy));
    EXPECT_EQ(result.text, prompt.greedy_text);
    EXPECT_EQ(handed_out, result.text);
    EXPECT_EQ(result.stop_reason, StopReason::kLength);
    const double num_chunks =
        variant.chunk_tokens == 0
            ? 1
            : (prompt.ids.size() + variant.chunk_tokens - 1) /
                  variant.chunk_tokens;
    EXPECT_EQ(result.meter.prefill_weight_passes, num_chunks);
    EXPECT_EQ(result.meter.decode_weight_passes, 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Variants, GoldenTextTest,
    ::testing::Values(Variant{"llama", Mode::kMmap, 1, 0},
                      Variant{"llama", Mode::kMmap, 3, 7},
                      Variant{"llama", Mode::kCopy, 2, 0},
                      Variant{"llama", Mode::kCopy, 1, 1},
                      Variant{"llama3", Mode::kMmap, 2, 0},
                      Variant{"llama3_rope_parameters", Mode::kCopy, 1, 16},
                      Variant{"llama_linear", Mode::kMmap, 1, 0},
                      Variant{"qwen2", Mode::kMmap, 1, 0},
                      Variant{"qwen2", Mode::kCopy, 2, 5},
                      Variant{"qwen2_sharded", Mode::kMmap, 1, 0},
                      Variant{"qwen2_sharded_scattered", Mode::kCopy, 1, 0}),
    [](const ::testing::TestParamInfo<Variant>& variant) {
      return absl::StrCat(
          variant.param.family, "_", ModeName(variant.param.mode), "_t",
          variant.param.num_threads, "_c", variant.param.chunk_tokens);
    });

TEST(EngineGgufTest, GreedyIdsAreTheReferences) {
  for (const char* name : {"llama-f16", "llama-mixed", "llama-q4_0",
                           "llama3-bf16", "qwen2-f32", "qwen2-q8_0"}) {
    SCOPED_TRACE(name);
    const std::string stem =
        absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny-gguf/", name);
    ASSERT_OK_AND_ASSIGN(const std::string text,
                         ReadWholeFile(absl::StrCat(stem, ".json"), 1u << 20));
    ASSERT_OK_AND_ASSIGN(const JsonValue golden, JsonValue::Parse(text));
    for (const Mode mode : {Mode::kMmap, Mode::kCopy}) {
      EngineOptions options;
      options.model_path = absl::StrCat(stem, ".gguf");
      options.mode = mode;
      options.num_threads = 2;
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                           Engine::Open(options));
      for (const JsonValue& prompt : golden.Find("prompts")->items()) {
        ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                             engine->NewSession());
        ASSERT_THAT(session->AppendText(prompt.Find("text")->string()), IsOk());
        ASSERT_EQ(session->ids(), IdsOf(*prompt.Find("ids")));
        // The steps that no rounding can turn.
        std::vector<int32_t> clear = IdsOf(*prompt.Find("greedy"));
        clear.resize(*prompt.Find("clear_steps")->AsUint64());
        GenerateOptions generate;
        generate.max_new_tokens = static_cast<int64_t>(clear.size());
        ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                             session->Generate(generate, Continue));
        EXPECT_EQ(result.ids, clear);
      }
    }
  }
}

TEST_F(EngineTest, ATextUnderATightBudgetIsTheSame) {
  for (const Mode mode : {Mode::kMmap, Mode::kStream}) {
    EngineOptions options = OptionsFor("llama");
    options.mode = mode;
    options.max_context_tokens =
        static_cast<uint32_t>(golden_[1].ids.size()) + 24;
    options.ram_budget_bytes = kProgramBytes + (656 << 10);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                         Engine::Open(options));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                         engine->NewSession());
    ASSERT_THAT(session->AppendIds(golden_[1].ids), IsOk());
    ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                         session->Generate(Tokens(24), Continue));
    EXPECT_EQ(result.ids, golden_[1].greedy);
    EXPECT_EQ(result.meter.ram_budget_bytes, options.ram_budget_bytes);
    EXPECT_EQ(result.meter.io.empty(), mode != Mode::kStream);
  }
}

TEST_F(EngineTest, ASeedGivesTheSameTextInEveryMode) {
  GenerateOptions options = Tokens(40);
  options.sampling.temperature = 1.0f;
  options.sampling.top_p = 0.95f;
  options.sampling.seed = 99;
  options.ignore_eos = true;
  std::vector<std::vector<int32_t>> answers;
  for (const Variant& variant : {Variant{"llama", Mode::kMmap, 1, 0},
                                 Variant{"llama", Mode::kCopy, 3, 4},
                                 Variant{"llama", Mode::kMmap, 2, 1}}) {
    EngineOptions engine_options = OptionsFor(variant.family);
    engine_options.mode = variant.mode;
    engine_options.num_threads = variant.num_threads;
    engine_options.prefill_chunk_tokens = variant.chunk_tokens;
    const std::unique_ptr<Engine> engine = OpenOrFail(engine_options);
    ASSERT_NE(engine, nullptr);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                         engine->NewSession());
    ASSERT_THAT(session->AppendText(golden_[1].text), IsOk());
    ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                         session->Generate(options, Continue));
    answers.push_back(result.ids);
  }
  EXPECT_EQ(answers[0].size(), 40);
  EXPECT_NE(answers[0], golden_[1].greedy);
  EXPECT_EQ(answers[1], answers[0]);
  EXPECT_EQ(answers[2], answers[0]);
}

TEST_F(EngineTest, EndTokensAreTheUnionOfAllFiles) {
  // config.json says 319, generation_config.json 319 and 317.
  EXPECT_THAT(engine_->eos_ids(), ::testing::IsSupersetOf({317, 319}));

  testing::TemporaryFolder folder;
  std::filesystem::copy(absl::StrCat(kTiny, "llama"), folder.path(),
                        std::filesystem::copy_options::recursive);
  folder.Write("generation_config.json",
               absl::StrCat(R"({"eos_token_id": )", golden_[0].greedy[3], "}"));
  EngineOptions options = OptionsFor("llama");
  options.model_path = folder.path();
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_THAT(engine->eos_ids(),
              ::testing::IsSupersetOf({golden_[0].greedy[3], 319}));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  ASSERT_THAT(session->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.stop_reason, StopReason::kEos);
  // The chosen id occurs at step 1 already.
  EXPECT_THAT(result.ids, ElementsAre(golden_[0].greedy[0]));
}

TEST_F(EngineTest, TheModelsSamplingDefaultsApply) {
  testing::TemporaryFolder folder;
  std::filesystem::copy(absl::StrCat(kTiny, "llama"), folder.path(),
                        std::filesystem::copy_options::recursive);
  folder.Write("generation_config.json",
               R"({"do_sample": true, "temperature": 1.5})");
  EngineOptions options = OptionsFor("llama");
  options.model_path = folder.path();
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  ASSERT_THAT(session->AppendIds(golden_[0].ids), IsOk());
  GenerateOptions generate = Tokens(24);
  generate.ignore_eos = true;
  ASSERT_OK_AND_ASSIGN(const GenerateResult sampled,
                       session->Generate(generate, Continue));
  EXPECT_NE(sampled.ids, golden_[0].greedy);
  ASSERT_THAT(session->Truncate(golden_[0].ids.size()), IsOk());
  generate.sampling.temperature = 0.0f;
  ASSERT_OK_AND_ASSIGN(const GenerateResult greedy,
                       session->Generate(generate, Continue));
  EXPECT_EQ(greedy.ids, golden_[0].greedy);
}

TEST_F(EngineTest, TokenizerRoundTrips) {
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids,
                       engine_->Tokenize(golden_[0].text, true, true));
  EXPECT_EQ(ids, golden_[0].ids);
  ASSERT_OK_AND_ASSIGN(const std::string text, engine_->Detokenize(ids, true));
  EXPECT_EQ(text, golden_[0].text);
  EXPECT_EQ(engine_->vocab_size(), 320);
  EXPECT_EQ(engine_->family(), "llama");
}

TEST_F(EngineTest, MeterSaysWhereTheMemoryIs) {
  for (Mode mode : {Mode::kMmap, Mode::kCopy}) {
    EngineOptions options = OptionsFor("llama");
    options.mode = mode;
    options.num_threads = 2;
    options.ram_budget_bytes = 64 << 20;
    const std::unique_ptr<Engine> engine = OpenOrFail(options);
    ASSERT_NE(engine, nullptr);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                         engine->NewSession());
    ASSERT_THAT(session->AppendIds(golden_[0].ids), IsOk());
    ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                         session->Generate(Tokens(5), Continue));
    const Meter& meter = result.meter;
    EXPECT_EQ(meter.mode, ModeName(mode));
    EXPECT_EQ(meter.threads, 2);
    EXPECT_EQ(meter.ram_budget_bytes, uint64_t{64} << 20);
    EXPECT_GT(meter.model_bytes, 100000);
    EXPECT_EQ(meter.resident_weight_bytes > 0, mode == Mode::kCopy);
    EXPECT_GE(meter.resident_weight_bytes,
              mode == Mode::kCopy ? meter.model_bytes : 0);
    EXPECT_GT(meter.arena_bytes, 0);
    // One page of 16 positions: 2 layers, 2 heads of 16, keys and values.
    EXPECT_EQ(meter.kv_bytes, 16 * 2 * 2 * 16 * 2 * sizeof(float));
    EXPECT_GT(meter.rss_anon_bytes, uint64_t{0});
    EXPECT_GE(meter.weight_bytes_read, 5 * (meter.model_bytes / 2));
    EXPECT_GT(meter.load_s, 0.0);
    EXPECT_EQ(engine->MemoryReport().kv_bytes, meter.kv_bytes);
  }
}

TEST_F(EngineTest, RoundedKeysAndValuesTakeFewerBytes) {
  struct Case {
    KvDtype kv_dtype;
    uint64_t bytes_per_token;  // 2 layers, 2 heads of 16, keys and values
  };
  for (const Case& c : {Case{KvDtype::kF32, 2 * 2 * 2 * 64},
                        Case{KvDtype::kBF16, 2 * 2 * 2 * 32},
                        Case{KvDtype::kQ8, 2 * 2 * 2 * 18}}) {
    EngineOptions options = OptionsFor("llama");
    options.kv_dtype = c.kv_dtype;
    const std::unique_ptr<Engine> engine = OpenOrFail(options);
    ASSERT_NE(engine, nullptr);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                         engine->NewSession());
    ASSERT_THAT(session->AppendIds(golden_[0].ids), IsOk());
    ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                         session->Generate(Tokens(5), Continue));
    EXPECT_EQ(result.meter.kv_bytes, 16 * c.bytes_per_token)
        << KvDtypeName(c.kv_dtype);
  }
}

}  // namespace
}  // namespace lowmem
