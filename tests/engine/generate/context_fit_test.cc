// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/context_fit.h"

#include <algorithm>
#include <limits>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;

// Activations of 100 bytes a token of the chunk and 4 a token of the context;
// keys and values of 160 bytes for each 16 tokens.
absl::StatusOr<ModelFootprint> Footprint(uint32_t chunk_tokens,
                                         uint32_t context_tokens) {
  EXPECT_GE(chunk_tokens, 1);
  EXPECT_LE(chunk_tokens, context_tokens);
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
  footprint.copied_weight_bytes = 1000000;
  footprint.arena_bytes = 100 * chunk_tokens + uint64_t{4} * context_tokens;
  footprint.kv_page_tokens = 16;
  footprint.kv_page_bytes = 160;
  footprint.context_tokens = context_tokens;
  return footprint;
}

// By trying them all.
uint32_t LongestByHand(uint64_t budget_bytes, uint32_t chunk_tokens,
                       uint32_t min_tokens, uint32_t max_tokens) {
  uint32_t longest = 0;
  for (uint32_t tokens = min_tokens; tokens <= max_tokens; ++tokens) {
    const uint64_t required = 100 * std::min(chunk_tokens, tokens) +
                              4 * tokens + 160 * ((tokens + 15) / 16);
    if (required <= budget_bytes) longest = tokens;
  }
  return longest;
}

TEST(ContextFitTest, TheLongestIsFoundForEveryBudget) {
  for (const uint32_t chunk_tokens : {1u, 8u, 64u}) {
    for (uint64_t budget = 0; budget < 12000; budget += 7) {
      ASSERT_OK_AND_ASSIGN(const std::optional<MemoryForecast> fit,
                           FitLongestContext(Mode::kMmap, budget, chunk_tokens,
                                             3, 500, Footprint));
      const uint32_t found = fit ? fit->footprint.context_tokens : 0;
      ASSERT_EQ(found, LongestByHand(budget, chunk_tokens, 3, 500))
          << "budget " << budget << ", chunk " << chunk_tokens;
    }
  }
}

TEST(ContextFitTest, TheBudgetIsMetToTheByte) {
  // 800 + 4 * 32 + 2 * 160.
  for (const uint64_t budget : {1247u, 1248u}) {
    ASSERT_OK_AND_ASSIGN(
        const std::optional<MemoryForecast> fit,
        FitLongestContext(Mode::kMmap, budget, 8, 1, 1000, Footprint));
    ASSERT_TRUE(fit.has_value());
    EXPECT_EQ(fit->footprint.context_tokens, budget == 1248 ? 32 : 31);
  }
}

TEST(ContextFitTest, ARangeOfOneFitsOrDoesNot) {
  ASSERT_OK_AND_ASSIGN(
      const std::optional<MemoryForecast> fits,
      FitLongestContext(Mode::kCopy, 1001248, 8, 32, 32, Footprint));
  EXPECT_TRUE(fits.has_value());
  ASSERT_OK_AND_ASSIGN(
      const std::optional<MemoryForecast> does_not,
      FitLongestContext(Mode::kCopy, 1001247, 8, 32, 32, Footprint));
  EXPECT_FALSE(does_not.has_value());
}

TEST(ContextFitTest, TheLongestContextThereIsCanBeFound) {
  constexpr uint32_t kMax = std::numeric_limits<uint32_t>::max();
  ASSERT_OK_AND_ASSIGN(
      const std::optional<MemoryForecast> fit,
      FitLongestContext(Mode::kMmap, uint64_t{1} << 60, 8, 1, kMax, Footprint));
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->footprint.context_tokens, kMax);
}

TEST(ContextFitTest, AFootprintThatCannotBeComputedEndsIt) {
  const auto fails = [](uint32_t, uint32_t) -> absl::StatusOr<ModelFootprint> {
    return absl::InternalError("no size");
  };
  EXPECT_THAT(FitLongestContext(Mode::kMmap, 1000, 8, 1, 100, fails),
              Fails(absl::StatusCode::kInternal, "no size"));
}

}  // namespace
}  // namespace lowmem
