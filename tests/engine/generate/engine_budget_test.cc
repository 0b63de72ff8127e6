// SPDX-License-Identifier: Apache-2.0
// Engine::Open under a memory budget: what is refused, what is chosen, and that
// what was promised is kept.
#include <filesystem>
#include <string>

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

}  // namespace
}  // namespace lowmem
