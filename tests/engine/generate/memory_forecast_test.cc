// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/memory_forecast.h"

#include <limits>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

ModelFootprint Footprint() {
  ModelFootprint footprint;
  footprint.weight_bytes = 1000000;
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
  EXPECT_EQ(copy.heap_weight_bytes, 1000000);
  EXPECT_EQ(copy.mapped_weight_bytes, 0);
  const MemoryForecast mmap = ForecastMemory(Mode::kMmap, Footprint());
  EXPECT_EQ(mmap.heap_weight_bytes, 0);
  EXPECT_EQ(mmap.mapped_weight_bytes, 1000000);
}

TEST(MemoryForecastTest, KeysAndValuesComeInWholePages) {
  const MemoryForecast forecast = ForecastMemory(Mode::kMmap, Footprint());
  EXPECT_EQ(forecast.KvBytes(0), 0);
  EXPECT_EQ(forecast.KvBytes(1), 160);
  EXPECT_EQ(forecast.KvBytes(16), 160);
  EXPECT_EQ(forecast.KvBytes(17), 320);
}

TEST(MemoryForecastTest, RequirementIsTheSumOfWhatMustBeHad) {
  EXPECT_EQ(ForecastMemory(Mode::kMmap, Footprint()).min_required_bytes(),
            5000 + 300 + 2000 + 700 + 160);
  EXPECT_EQ(ForecastMemory(Mode::kMmap, Footprint()).full_required_bytes(),
            5000 + 300 + 2000 + 700 + 1120);
  EXPECT_EQ(ForecastMemory(Mode::kCopy, Footprint()).min_required_bytes(),
            1000000 + 5000 + 300 + 2000 + 700 + 160);
}

TEST(MemoryForecastTest, SumsThatOverflowFitNoBudget) {
  ModelFootprint footprint = Footprint();
  footprint.kv_page_bytes = std::numeric_limits<uint64_t>::max() - 1;
  const MemoryForecast forecast = ForecastMemory(Mode::kMmap, footprint);
  EXPECT_EQ(forecast.min_required_bytes(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(CheckFits(forecast, uint64_t{1} << 62),
              Fails(absl::StatusCode::kResourceExhausted, "keys and values"));
}

TEST(MemoryForecastTest, BudgetIsMetToTheByte) {
  const MemoryForecast forecast = ForecastMemory(Mode::kMmap, Footprint());
  EXPECT_THAT(CheckFits(forecast, 8160), IsOk());
  EXPECT_THAT(CheckFits(forecast, 8159),
              Fails(absl::StatusCode::kResourceExhausted, ""));
}

TEST(MemoryForecastTest, RefusalNamesNeedAllowanceAndLargestItem) {
  const absl::Status mmap =
      CheckFits(ForecastMemory(Mode::kMmap, Footprint()), 4096);
  for (const char* part :
       {"mode mmap", "needed 7.97 KiB (8160)", "allowed 4.00 KiB (4096)",
        "largest item: activations 4.88 KiB"}) {
    EXPECT_THAT(mmap, Fails(absl::StatusCode::kResourceExhausted, part));
  }
  EXPECT_THAT(CheckFits(ForecastMemory(Mode::kCopy, Footprint()), 4096),
              Fails(absl::StatusCode::kResourceExhausted,
                    "largest item: weights 977 KiB"));
}

}  // namespace
}  // namespace lowmem
