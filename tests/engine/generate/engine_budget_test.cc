// SPDX-License-Identifier: Apache-2.0
// Engine::Open under a memory budget: what is refused, what is chosen, and that
// what was promised is kept.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "tests/engine/generate/engine_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Continue;
using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::lowmem::testing::kTiny;
using ::lowmem::testing::OpenOrFail;
using ::lowmem::testing::OptionsFor;

TEST(EngineBudgetTest, RefusalComesBeforeAnyWeightIsRead) {
  for (Mode mode : {Mode::kAuto, Mode::kCopy, Mode::kMmap, Mode::kStream}) {
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

// The least budget that Open accepts, found by trying.
uint64_t LeastBudget(EngineOptions options) {
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
  return low;
}

// Generates to the end of the context and returns how many tokens the sequence
// has then.
size_t FillContext(Engine& engine) {
  absl::StatusOr<std::unique_ptr<Session>> session = engine.NewSession();
  EXPECT_THAT(session, IsOk());
  EXPECT_THAT((*session)->AppendIds({1, 2, 3}), IsOk());
  GenerateOptions generate;
  generate.max_new_tokens = -1;
  generate.ignore_eos = true;
  const absl::StatusOr<GenerateResult> result =
      (*session)->Generate(generate, Continue);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return 0;
  EXPECT_EQ(result->stop_reason, StopReason::kContext);
  return (*session)->ids().size();
}

TEST(EngineBudgetTest, TheContextIsTheLongestThatFitsAndCanBeFilled) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kCopy;
  const uint64_t least = LeastBudget(options);
  uint32_t longest = 0;
  // A page of keys and values is 8 KiB; 16 tokens of scores are rounded up.
  for (uint64_t budget = least; budget < least + (240 << 10); budget += 9001) {
    options.ram_budget_bytes = budget;
    const std::unique_ptr<Engine> engine = OpenOrFail(options);
    ASSERT_NE(engine, nullptr);
    const uint32_t context_tokens = engine->max_context_tokens();
    if (budget == least) {
      EXPECT_EQ(context_tokens, 16);
    }
    EXPECT_EQ(engine->budget_limits_context(), context_tokens < 512);
    EXPECT_EQ(FillContext(*engine), context_tokens);
    longest = std::max(longest, context_tokens);
  }
  EXPECT_GT(longest, 200);
  EXPECT_LT(longest, 512);
}

// Whatever the budget, what was planned can be had: no account refuses.
TEST(EngineBudgetTest, AStreamedContextCanBeFilledUnderEveryBudget) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kStream;
  const uint64_t least = LeastBudget(options);
  uint64_t most_resident = 0;
  for (uint64_t budget = least; budget < least + (1000 << 10);
       budget += 30011) {
    options.ram_budget_bytes = budget;
    const std::unique_ptr<Engine> engine = OpenOrFail(options);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(FillContext(*engine), engine->max_context_tokens());
    most_resident = engine->MemoryReport().resident_weight_bytes;
  }
  EXPECT_EQ(most_resident, OpenOrFail(options)->MemoryReport().model_bytes);
}

TEST(EngineBudgetTest, TheNeedOfASequenceDividesTheBudget) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kStream;
  options.ram_budget_bytes = uint64_t{8} << 20;
  std::vector<int32_t> ids;
  options.sequence_need =
      [&ids](TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
    absl::StatusOr<std::vector<int32_t>> tokens = tokenize("hello", true);
    if (!tokens.ok()) return tokens.status();
    ids = *tokens;
    return SequenceNeed{static_cast<uint32_t>(ids.size()), 70, 70};
  };
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_FALSE(ids.empty());
  EXPECT_EQ(engine->max_context_tokens(), 70);
  EXPECT_FALSE(engine->budget_limits_context());
  // An error of the callback is Open's.
  options.sequence_need = [](TokenizeFunction) {
    return absl::OutOfRangeError("what nobody can tell");
  };
  EXPECT_THAT(Engine::Open(options),
              Fails(absl::StatusCode::kOutOfRange, "what nobody can tell"));
}

TEST(EngineBudgetTest, AnAmpleBudgetLimitsNothing) {
  EngineOptions options = OptionsFor("llama");
  options.ram_budget_bytes = uint64_t{1} << 30;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  EXPECT_EQ(engine->max_context_tokens(), 512);
  EXPECT_FALSE(engine->budget_limits_context());
  EXPECT_FALSE(OpenOrFail(OptionsFor("llama"))->budget_limits_context());
}

TEST(EngineBudgetTest, AContextAskedForIsHeldToTheByteOrRefused) {
  for (const Mode mode : {Mode::kMmap, Mode::kCopy, Mode::kStream}) {
    EngineOptions options = OptionsFor("llama");
    options.mode = mode;
    options.max_context_tokens = 100;
    const uint64_t least = LeastBudget(options);
    options.ram_budget_bytes = least;
    const std::unique_ptr<Engine> engine = OpenOrFail(options);
    ASSERT_NE(engine, nullptr);
    EXPECT_EQ(engine->max_context_tokens(), 100);
    EXPECT_FALSE(engine->budget_limits_context());
    EXPECT_EQ(FillContext(*engine), 100);

    options.ram_budget_bytes = least - 1;
    int num_progress_calls = 0;
    options.on_load_progress = [&](const LoadProgress&) {
      ++num_progress_calls;
      return absl::OkStatus();
    };
    // The budget is 100 tokens' but for a byte: one page less fits.
    for (const std::string& part :
         {absl::StrCat("mode ", ModeName(mode)),
          std::string("with a context of 100 tokens"),
          absl::StrCat("(", least, "), allowed"),
          absl::StrCat("(", least - 1, "), largest item: "),
          std::string("; a context of 96 tokens fits")}) {
      EXPECT_THAT(Engine::Open(options),
                  Fails(absl::StatusCode::kResourceExhausted, part));
    }
    EXPECT_EQ(num_progress_calls, 0);
    // What the refusal says is true.
    options.max_context_tokens = 96;
    EXPECT_THAT(Engine::Open(options), IsOk());
  }
}

// The text for sequence_need, and what the caller keeps, are of the budget.
TEST(EngineBudgetTest, TextsCountAgainstTheBudget) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kStream;
  const uint64_t budget = LeastBudget(options) + (1 << 20);
  options.ram_budget_bytes = budget;
  const struct {
    std::string text;
    uint64_t caller_text_bytes = 0;
    uint64_t caller_bytes = 0;
    bool exceeds_context = false;
    absl::StatusCode code = absl::StatusCode::kOk;
    const char* message = "";
  } rows[] = {
      {"a b"},
      {"a b", budget, 0, false, absl::StatusCode::kResourceExhausted,
       "for text on top of "},
      {"a b", 0, budget, false, absl::StatusCode::kResourceExhausted,
       "largest item: text "},
      {std::string(100'000, '.'), 0, 0, false, absl::StatusCode::kOutOfRange,
       "prompt is longer than the context; expected at most 512 tokens, got "
       "more"},
      {std::string(30'000, '.'), 0, 0, true},
      {std::string(1'000'000, '.'), 0, 0, true,
       absl::StatusCode::kResourceExhausted, "for text on top of "},
  };
  for (const auto& row : rows) {
    options.caller_text_bytes = row.caller_text_bytes;
    options.text_exceeds_context = row.exceeds_context;
    options.sequence_need =
        [&row](TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
      const auto ids = tokenize(row.text, /*parse_special=*/true);
      if (!ids.ok()) return ids.status();
      return SequenceNeed{.caller_bytes = row.caller_bytes};
    };
    const auto engine = Engine::Open(options);
    if (row.code == absl::StatusCode::kOk) {
      EXPECT_THAT(engine, IsOk()) << row.text.size();
    } else {
      EXPECT_THAT(engine, Fails(row.code, row.message)) << row.text.size();
    }
  }
}

// Text that comes later has a part of its own, though weights fill the rest.
TEST(EngineBudgetTest, LaterTextsHaveRoomAndNoMore) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kStream;
  options.ram_budget_bytes = LeastBudget(options);
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto session, engine->NewSession());
  EXPECT_THAT(session->AppendText("a b"), IsOk());
  EXPECT_THAT(session->AppendText(std::string(1'000'000, '.')),
              Fails(absl::StatusCode::kOutOfRange, "longer than the context"));
  EXPECT_THAT(engine->Tokenize(std::string(1000, '.'), true, true), IsOk());
  EXPECT_THAT(engine->Tokenize(std::string(1'000'000, '.'), true, true),
              Fails(absl::StatusCode::kResourceExhausted, "text: "));
}

TEST(EngineBudgetTest, APromptBeyondWhatTheBudgetHoldsIsTheBudgetsFault) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kMmap;
  options.ram_budget_bytes = LeastBudget(options);
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  EXPECT_THAT(session->AppendIds(std::vector<int32_t>(17, 1)),
              Fails(absl::StatusCode::kResourceExhausted,
                    "longer than the context that fits the memory budget; "
                    "expected at most 16 tokens, got 17"));
  EXPECT_EQ(engine->longest_context_tokens(), 16);
  EXPECT_THAT(session->AppendIds(std::vector<int32_t>(513, 1)),
              Fails(absl::StatusCode::kOutOfRange, "longer than the context"));
  EXPECT_THAT(session->AppendIds(std::vector<int32_t>(16, 1)), IsOk());
}

TEST(EngineBudgetTest, APromptBeyondAChosenContextIsToldWhatFits) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kStream;
  options.ram_budget_bytes = LeastBudget(options) + 100000;
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  const uint32_t chosen = engine->max_context_tokens();
  const uint32_t longest = engine->longest_context_tokens();
  ASSERT_GT(longest, chosen);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  EXPECT_THAT(
      session->AppendIds(std::vector<int32_t>(chosen + 1, 1)),
      Fails(absl::StatusCode::kResourceExhausted,
            absl::StrCat("chosen under the memory budget; expected at most ",
                         chosen, " tokens, got ", chosen + 1, "; a context of ",
                         longest, " tokens fits when asked for")));
  options.max_context_tokens = longest;
  EXPECT_THAT(Engine::Open(options), IsOk());
}

// The plan is for one session; a second one takes what is left and fails in the
// middle, keeping what it generated.
TEST(EngineBudgetTest, SessionsShareTheRoomForKeysAndValues) {
  EngineOptions options = OptionsFor("llama");
  options.mode = Mode::kMmap;
  options.max_context_tokens = 64;
  options.ram_budget_bytes = LeastBudget(options);
  const std::unique_ptr<Engine> engine = OpenOrFail(options);
  ASSERT_NE(engine, nullptr);
  GenerateOptions generate;
  generate.max_new_tokens = -1;
  generate.ignore_eos = true;
  std::unique_ptr<Session> sessions[2];
  for (std::unique_ptr<Session>& session : sessions) {
    ASSERT_OK_AND_ASSIGN(session, engine->NewSession());
    ASSERT_THAT(session->AppendIds({1, 2, 3}), IsOk());
  }
  generate.max_new_tokens = 20;
  ASSERT_THAT(sessions[0]->Generate(generate, Continue), IsOk());
  generate.max_new_tokens = -1;
  EXPECT_THAT(sessions[1]->Generate(generate, Continue),
              Fails(absl::StatusCode::kResourceExhausted, "memory budget"));
  EXPECT_EQ(sessions[1]->ids().size(), 33) << "two pages, and one chosen";
  sessions[0].reset();
  EXPECT_THAT(sessions[1]->Generate(generate, Continue), IsOk());
  EXPECT_EQ(sessions[1]->ids().size(), 64);
}

}  // namespace
}  // namespace lowmem
