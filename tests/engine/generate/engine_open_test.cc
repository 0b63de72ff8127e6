// SPDX-License-Identifier: Apache-2.0
// Engine::Open: options out of range, progress, the context.
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "tests/engine/generate/engine_fixture.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Continue;
using ::lowmem::testing::EngineTest;
using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::lowmem::testing::OpenOrFail;
using ::lowmem::testing::OptionsFor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

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
      {"", [](EngineOptions& o) { o.model_path += "-absent"; },
       absl::StatusCode::kNotFound},
  };
  for (const Case& test : cases) {
    EngineOptions options = OptionsFor("llama");
    test.change(options);
    EXPECT_THAT(Engine::Open(options), Fails(test.code, test.message));
  }
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

}  // namespace
}  // namespace lowmem
