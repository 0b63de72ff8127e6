// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/memory_forecast.h"

#include <limits>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

ModelFootprint Footprint() {
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
  footprint.copied_weight_bytes = 1000064;
  footprint.least_stream_bytes = 40000;
  footprint.most_stream_bytes = 1200000;
  footprint.least_mapped_bytes = 3000;
  footprint.most_mapped_bytes = 1100000;
  footprint.arena_bytes = 5000;
  footprint.sampler_bytes = 300;
  footprint.tokenizer_bytes = 2000;
  footprint.program_bytes = 700;
  footprint.kv_bytes_per_token = 10;
  footprint.kv_page_tokens = 16;
  footprint.kv_page_bytes = 160;
  footprint.context_tokens = 100;
  return footprint;
}

TEST(MemoryForecastTest, WeightsAreInHeapOrMapped) {
  const MemoryForecast copy = ForecastMemory(Mode::kCopy, Footprint());
  EXPECT_EQ(copy.heap_weight_bytes, 1000064);
  EXPECT_EQ(copy.mapped_weight_bytes, 0);
  const MemoryForecast mmap = ForecastMemory(Mode::kMmap, Footprint());
  EXPECT_EQ(mmap.heap_weight_bytes, 0);
  EXPECT_EQ(mmap.mapped_weight_bytes, 1000000);
  const MemoryForecast stream = ForecastMemory(Mode::kStream, Footprint());
  EXPECT_EQ(stream.heap_weight_bytes, 40000);
  EXPECT_EQ(stream.mapped_weight_bytes, 0);
}

TEST(MemoryForecastTest, KeysAndValuesComeInWholePages) {
  MemoryForecast forecast = ForecastMemory(Mode::kMmap, Footprint());
  for (const auto& [context_tokens, num_bytes] :
       {std::pair(1, 160), {16, 160}, {17, 320}, {100, 1120}}) {
    forecast.footprint.context_tokens = context_tokens;
    EXPECT_EQ(forecast.kv_bytes(), num_bytes) << context_tokens;
  }
}

TEST(MemoryForecastTest, RequirementIsTheSumOfWhatMustBeHad) {
  EXPECT_EQ(ForecastMemory(Mode::kMmap, Footprint()).required_bytes(),
            3000 + 5000 + 300 + 2000 + 700 + 1120);
  EXPECT_EQ(ForecastMemory(Mode::kCopy, Footprint()).required_bytes(),
            1000064 + 5000 + 300 + 2000 + 700 + 1120);
}

TEST(MemoryForecastTest, SumsThatOverflowFitNoBudget) {
  ModelFootprint footprint = Footprint();
  footprint.kv_page_bytes = std::numeric_limits<uint64_t>::max() - 1;
  const MemoryForecast forecast = ForecastMemory(Mode::kMmap, footprint);
  EXPECT_EQ(forecast.required_bytes(), std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(CheckFits(forecast, uint64_t{1} << 62),
              Fails(absl::StatusCode::kResourceExhausted, "keys and values"));
}

TEST(MemoryForecastTest, BudgetIsMetToTheByte) {
  const MemoryForecast forecast = ForecastMemory(Mode::kMmap, Footprint());
  EXPECT_THAT(CheckFits(forecast, 12120), IsOk());
  EXPECT_THAT(CheckFits(forecast, 12119),
              Fails(absl::StatusCode::kResourceExhausted, ""));
}

TEST(MemoryForecastTest, RefusalNamesNeedAllowanceAndLargestItem) {
  const absl::Status mmap =
      CheckFits(ForecastMemory(Mode::kMmap, Footprint()), 4096);
  for (const char* part :
       {"mode mmap", "context of 100 tokens", "needed 11.8 KiB (12120)",
        "allowed 4.00 KiB (4096)", "largest item: activations 4.88 KiB"}) {
    EXPECT_THAT(mmap, Fails(absl::StatusCode::kResourceExhausted, part));
  }
  EXPECT_THAT(CheckFits(ForecastMemory(Mode::kCopy, Footprint()), 4096),
              Fails(absl::StatusCode::kResourceExhausted,
                    "largest item: weights 977 KiB"));
  EXPECT_THAT(CheckFits(ForecastMemory(Mode::kStream, Footprint()), 4096),
              Fails(absl::StatusCode::kResourceExhausted,
                    "largest item: norms and read buffers 39.1 KiB"));
}

}  // namespace
}  // namespace lowmem
