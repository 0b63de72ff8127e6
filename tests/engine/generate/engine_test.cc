// SPDX-License-Identifier: Apache-2.0
// Engine and Session over the tiny models: the golden texts in every mode,
// thread count and chunking, and what callers may do wrong.
#include "lowmem/engine.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr char kTiny[] = LOWMEM_TESTDATA_DIR "/tiny/";

bool Continue(absl::string_view) { return true; }

struct GoldenText {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
  std::string greedy_text;
};

std::vector<int32_t> IdsOf(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& item : list.items()) {
    ids.push_back(static_cast<int32_t>(*item.AsInt64()));
  }
  return ids;
}

std::vector<GoldenText> GoldenTexts(const std::string& family) {
  std::vector<GoldenText> golden;
  const absl::StatusOr<std::string> text =
      ReadWholeFile(absl::StrCat(kTiny, family, "/golden.json"), 1u << 20);
  if (!text.ok()) return golden;
  const absl::StatusOr<JsonValue> json = JsonValue::Parse(*text);
  if (!json.ok()) return golden;
  for (const JsonValue& prompt : json->Find("prompts")->items()) {
    golden.push_back({prompt.Find("text")->string(), IdsOf(*prompt.Find("ids")),
                      IdsOf(*prompt.Find("greedy")),
                      prompt.Find("greedy_text")->string()});
  }
  return golden;
}

EngineOptions OptionsFor(const std::string& family) {
  EngineOptions options;
  options.model_path = absl::StrCat(kTiny, family);
  options.num_threads = 1;
  return options;
}

std::unique_ptr<Engine> OpenOrFail(const EngineOptions& options) {
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Open(options);
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? *std::move(engine) : nullptr;
}

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    engine_ = OpenOrFail(OptionsFor("llama"));
    ASSERT_NE(engine_, nullptr);
    ASSERT_OK_AND_ASSIGN(session_, engine_->NewSession());
    golden_ = GoldenTexts("llama");
    ASSERT_EQ(golden_.size(), 2);
  }

  GenerateOptions Tokens(int64_t max_new_tokens) {
    GenerateOptions options;
    options.max_new_tokens = max_new_tokens;
    return options;
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<GoldenText> golden_;
};

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

// A budget below the model's size: the file is mapped, pages are given back
// after each layer, and the text is the same.
TEST_F(EngineTest, ATextUnderATightBudgetIsTheSame) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kMmap;
  options.ram_budget_bytes = uint64_t{7} << 20;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                       Engine::Open(options));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  ASSERT_THAT(session->AppendIds(golden_[1].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.ids, golden_[1].greedy);
  EXPECT_EQ(result.meter.ram_budget_bytes, options.ram_budget_bytes);
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

TEST_F(EngineTest, AnAnswerInPiecesIsTheAnswerInOne) {
  GenerateOptions options = Tokens(24);
  options.sampling.temperature = 0.9f;
  options.sampling.seed = 3;
  options.ignore_eos = true;
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult whole,
                       session_->Generate(options, Continue));
  ASSERT_THAT(session_->Truncate(golden_[0].ids.size()), IsOk());
  std::vector<int32_t> joined;
  for (int64_t piece_tokens : {1, 10, 13}) {
    options.max_new_tokens = piece_tokens;
    ASSERT_OK_AND_ASSIGN(const GenerateResult piece,
                         session_->Generate(options, Continue));
    joined.insert(joined.end(), piece.ids.begin(), piece.ids.end());
  }
  EXPECT_EQ(joined, whole.ids);
}

TEST_F(EngineTest, AReusedSequenceGivesWhatAFreshOneDoes) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult first,
                       session_->Generate(Tokens(5), Continue));
  ASSERT_THAT(session_->AppendIds(golden_[1].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult reused,
                       session_->Generate(Tokens(10), Continue));

  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> fresh,
                       engine_->NewSession());
  std::vector<int32_t> history = golden_[0].ids;
  history.insert(history.end(), first.ids.begin(), first.ids.end());
  history.insert(history.end(), golden_[1].ids.begin(), golden_[1].ids.end());
  ASSERT_THAT(fresh->AppendIds(history), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult one_shot,
                       fresh->Generate(Tokens(10), Continue));
  EXPECT_EQ(reused.ids, one_shot.ids);
  EXPECT_EQ(reused.meter.prompt_tokens, history.size());
}

TEST_F(EngineTest, SessionsDoNotMix) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> other,
                       engine_->NewSession());
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_THAT(other->AppendIds(golden_[1].ids), IsOk());
  std::vector<int32_t> answers[2];
  for (int i = 0; i < 8; ++i) {
    for (Session* session : {session_.get(), other.get()}) {
      ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                           session->Generate(Tokens(3), Continue));
      std::vector<int32_t>& answer = answers[session == other.get()];
      answer.insert(answer.end(), result.ids.begin(), result.ids.end());
    }
  }
  EXPECT_EQ(answers[0], golden_[0].greedy);
  EXPECT_EQ(answers[1], golden_[1].greedy);
}

TEST_F(EngineTest, SessionsOfTwoThreadsTakeTurns) {
  std::vector<int32_t> answers[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      absl::StatusOr<std::unique_ptr<Session>> session = engine_->NewSession();
      ASSERT_THAT(session, IsOk());
      ASSERT_THAT((*session)->AppendIds(golden_[i].ids), IsOk());
      absl::StatusOr<GenerateResult> result =
          (*session)->Generate(Tokens(24), Continue);
      ASSERT_THAT(result, IsOk());
      answers[i] = result->ids;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers[0], golden_[0].greedy);
  EXPECT_EQ(answers[1], golden_[1].greedy);
}

TEST_F(EngineTest, CancelFromAnotherThreadEndsAnEndlessGeneration) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  GenerateOptions options = Tokens(-1);
  options.ignore_eos = true;
  std::atomic<bool> started{false};
  std::atomic<bool> cancelled{false};
  std::thread canceller([&] {
    while (!started) std::this_thread::yield();
    session_->Cancel();
    cancelled = true;
  });
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(options, [&](absl::string_view) {
                         started = true;
                         while (!cancelled) std::this_thread::yield();
                         return true;
                       }));
  canceller.join();
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_LT(result.ids.size(), 10);
  // What was completed is kept, and the next call is not cancelled.
  options.max_new_tokens = 3;
  ASSERT_OK_AND_ASSIGN(const GenerateResult more,
                       session_->Generate(options, Continue));
  EXPECT_EQ(more.stop_reason, StopReason::kLength);
}

TEST_F(EngineTest, CancelFromTheCallbackEndsIt) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), [&](absl::string_view) {
                         session_->Cancel();
                         return true;
                       }));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_THAT(result.ids, Not(IsEmpty()));
  EXPECT_LT(result.ids.size(), 24);
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

TEST_F(EngineTest, AContextHoldsSoManyTokensAndNoMore) {
  EngineOptions options = OptionsFor("llama");
  options.max_context_tokens = 12;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->max_context_tokens(), 12);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  EXPECT_THAT(session->AppendIds(golden_[1].ids),
              Fails(absl::StatusCode::kOutOfRange,
                    "prompt is longer than the context; expected at most 12 "
                    "tokens, got 40"));
  EXPECT_THAT(session->ids(), IsEmpty());
  ASSERT_THAT(session->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.stop_reason, StopReason::kContext);
  EXPECT_THAT(result.ids,
              ElementsAre(golden_[0].greedy[0], golden_[0].greedy[1],
                          golden_[0].greedy[2]));
}

TEST_F(EngineTest, AContextBeyondTheModelsIsTheModels) {
  EngineOptions options = OptionsFor("llama");
  options.max_context_tokens = 1u << 30;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->max_context_tokens(), 512);
}

TEST_F(EngineTest, MisuseIsRefusedAndChangesNothing) {
  EXPECT_THAT(session_->Generate({}, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "prompt is empty"));
  for (int32_t id : {-1, 320, std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(session_->AppendIds({1, id}),
                Fails(absl::StatusCode::kInvalidArgument,
                      absl::StrCat("expected 0 to 319, got ", id)));
  }
  EXPECT_THAT(session_->AppendText("\xff"),
              Fails(absl::StatusCode::kInvalidArgument, ""));
  EXPECT_THAT(session_->ids(), IsEmpty());
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  EXPECT_THAT(session_->Generate(Tokens(-2), Continue),
              Fails(absl::StatusCode::kInvalidArgument, "max_new_tokens"));
  GenerateOptions options;
  options.stop_texts = {""};
  EXPECT_THAT(session_->Generate(options, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "stop_texts"));
  options = {};
  options.sampling.top_p = 0.0f;
  EXPECT_THAT(session_->Generate(options, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "top_p"));
  EXPECT_THAT(session_->Truncate(golden_[0].ids.size() + 1),
              Fails(absl::StatusCode::kOutOfRange, "truncate"));
  EXPECT_THAT(session_->ids(), ElementsAreArray(golden_[0].ids));
}

TEST_F(EngineTest, EngineOptionsOutOfRangeAreRefused) {
  struct Case {
    const char* message;
    std::function<void(EngineOptions&)> change;
    absl::StatusCode code = absl::StatusCode::kInvalidArgument;
  };
  const Case cases[] = {
      {"model_path", [](EngineOptions& o) { o.model_path = ""; }},
      {"num_threads", [](EngineOptions& o) { o.num_threads = 1025; }},
      {"ram_budget_bytes", [](EngineOptions& o) { o.ram_budget_bytes = 0; }},
      {"prefill_chunk_tokens",
       [](EngineOptions& o) { o.prefill_chunk_tokens = 65537; }},
      {"mode stream", [](EngineOptions& o) { o.mode = Mode::kStream; },
       absl::StatusCode::kUnimplemented},
      {"", [](EngineOptions& o) { o.model_path += "-absent"; },
       absl::StatusCode::kNotFound},
  };
  for (const Case& test : cases) {
    EngineOptions options = OptionsFor("llama");
    test.change(options);
    EXPECT_THAT(Engine::Open(options), Fails(test.code, test.message));
  }
}

TEST_F(EngineTest, ScoreGivesTheLogitsOfWhatIsNotYetComputed) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  std::vector<uint64_t> positions;
  int32_t best = -1;
  const auto note = [&](uint64_t pos, absl::Span<const float> logits) {
    positions.push_back(pos);
    best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                                logits.begin());
    return absl::OkStatus();
  };
  ASSERT_THAT(session_->Score(note), IsOk());
  ASSERT_EQ(positions.size(), golden_[0].ids.size());
  for (size_t i = 0; i < positions.size(); ++i) EXPECT_EQ(positions[i], i);
  EXPECT_EQ(best, golden_[0].greedy[0]);
  positions.clear();
  ASSERT_THAT(session_->Score(note), IsOk());
  EXPECT_THAT(positions, IsEmpty());
  // Generation goes on from a scored sequence.
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.ids, golden_[0].greedy);
}

TEST_F(EngineTest, ScoreEndsWithWhatTheCallbackReturns) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  EXPECT_THAT(session_->Score([](uint64_t pos, absl::Span<const float>) {
    return pos == 2 ? absl::AbortedError("enough") : absl::OkStatus();
  }),
              Fails(absl::StatusCode::kAborted, "enough"));
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

TEST(EngineBudgetTest, RefusalComesBeforeAnyWeightIsRead) {
  for (Mode mode : {Mode::kAuto, Mode::kCopy, Mode::kMmap}) {
    EngineOptions options = OptionsFor("llama");
    options.mode = mode;
    options.ram_budget_bytes = 1;
    int num_progress_calls = 0;
    options.on_load_progress = [&](const LoadProgress&) {
      ++num_progress_calls;
      return absl::OkStatus();
    };
    const absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Open(options);
    for (const char* part : {"tiny/llama: mode ", "needed ", "allowed 1 B (1)",
                             "largest item: "}) {
      EXPECT_THAT(engine, Fails(absl::StatusCode::kResourceExhausted, part));
    }
    EXPECT_EQ(num_progress_calls, 0);
  }
}

// The file cannot be read beyond its header here, so a weight that was touched
// would be an error of another kind: the refusal must come first.
TEST(EngineBudgetTest, RefusalNeedsNoReadableWeights) {
  testing::TemporaryFolder folder;
  std::filesystem::copy(absl::StrCat(kTiny, "llama"), folder.path(),
                        std::filesystem::copy_options::recursive);
  EngineOptions options = OptionsFor("llama");
  options.model_path = folder.path();
  options.mode = Mode::kCopy;
  options.on_load_progress = [](const LoadProgress&) {
    return absl::UnavailableError("a weight was read");
  };
  EXPECT_THAT(Engine::Open(options),
              Fails(absl::StatusCode::kUnavailable, "a weight was read"));
  options.ram_budget_bytes = 1000;
  EXPECT_THAT(Engine::Open(options),
              Fails(absl::StatusCode::kResourceExhausted, "mode copy"));
}

TEST(EngineBudgetTest, ModeFollowsTheBudget) {
  EngineOptions options = OptionsFor("llama");
  EXPECT_EQ(OpenOrFail(options)->mode(), Mode::kMmap);
  options.ram_budget_bytes = uint64_t{1} << 30;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  EXPECT_EQ(engine->mode(), Mode::kCopy);
  EXPECT_EQ(engine->mode_reason(), "the model fits the memory budget");
}

// The smallest budget that is accepted: one byte less is refused, and the
// sequence grows until the budget ends it, keeping what was generated.
TEST(EngineBudgetTest, ASequenceGrowsUpToTheBudget) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kMmap;
  uint64_t low = 1;
  uint64_t high = uint64_t{1} << 30;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    options.ram_budget_bytes = middle;
    if (Engine::Open(options).ok()) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  options.ram_budget_bytes = low;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  ASSERT_THAT(session->AppendIds({1, 2, 3}), IsOk());
  GenerateOptions generate;
  generate.max_new_tokens = -1;
  generate.ignore_eos = true;
  std::string printed;
  const absl::StatusOr<GenerateResult> result =
      session->Generate(generate, [&](absl::string_view text) {
        absl::StrAppend(&printed, text);
        return true;
      });
  EXPECT_THAT(result,
              Fails(absl::StatusCode::kResourceExhausted, "memory budget"));
  EXPECT_GE(session->ids().size(), 16);
  ASSERT_THAT(session->Truncate(3), IsOk());
  generate.max_new_tokens = 2;
  EXPECT_THAT(session->Generate(generate, Continue), IsOk());
}

TEST(EngineLoadTest, ProgressReachesTheWholeAndMayEndIt) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kCopy;
  LoadProgress last;
  options.on_load_progress = [&](const LoadProgress& progress) {
    EXPECT_GE(progress.done_bytes, last.done_bytes);
    last = progress;
    return absl::OkStatus();
  };
  ASSERT_NE(OpenOrFail(options), nullptr);
  EXPECT_GT(last.total_bytes, 0);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  options.on_load_progress = [](const LoadProgress&) {
    return absl::CancelledError("stop");
  };
  EXPECT_THAT(Engine::Open(options),
              Fails(absl::StatusCode::kCancelled, "stop"));
}

TEST(StopReasonNameTest, NamesAreThoseOfTheOutput) {
  EXPECT_EQ(StopReasonName(StopReason::kEos), "eos");
  EXPECT_EQ(StopReasonName(StopReason::kStopText), "stop");
  EXPECT_EQ(StopReasonName(StopReason::kLength), "length");
  EXPECT_EQ(StopReasonName(StopReason::kContext), "context");
  EXPECT_EQ(StopReasonName(StopReason::kInterrupted), "interrupted");
}

}  // namespace
}  // namespace lowmem
