// SPDX-License-Identifier: Apache-2.0
#include "storage/ring_choice.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/units.h"
#include "storage/stream_source.h"

namespace lowmem {
namespace {

constexpr uint64_t kRows[] = {1,          1792,      18944,      37888,
                              256 * 1024, 5'000'000, 100'000'000};

std::vector<std::pair<uint64_t, uint64_t>> AllPairs() {
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const uint64_t row_bytes : kRows) {
    for (const uint64_t streamable :
         {uint64_t{0}, 20 * kMiB, kGiB, 90 * kGiB}) {
      pairs.emplace_back(row_bytes, streamable);
    }
  }
  return pairs;
}

TEST(ChooseRingTest, MoreMemoryNeverGivesASmallerRingNorLeavesTooLittle) {
  for (const auto& [row_bytes, streamable_bytes] : AllPairs()) {
    SCOPED_TRACE(absl::StrCat(row_bytes, " of ", streamable_bytes));
    uint64_t last_bytes = 0;
    bool has_fitted = false;
    for (uint64_t available = 0; available < 8ull << 30;
         available += available / 64 + 4096) {
      const StreamRingShape ring =
          ChooseRing(available, row_bytes, streamable_bytes);
      const uint64_t ring_bytes = StreamBufferBytes(ring, row_bytes);
      ASSERT_GE(ring_bytes, last_bytes) << available;
      last_bytes = ring_bytes;
      ASSERT_FALSE(has_fitted && ring_bytes > available) << available;
      has_fitted |= ring_bytes <= available;
    }
    EXPECT_TRUE(has_fitted);
    EXPECT_LE(last_bytes, StreamBufferBytes(ChooseRing(kNoBudget, row_bytes,
                                                       streamable_bytes),
                                            row_bytes));
  }
}

TEST(ChooseRingTest, HoldsARowAndABuffer) {
  for (const uint64_t row_bytes : kRows) {
    for (const uint64_t available : {uint64_t{0}, 100 * kMiB, kNoBudget}) {
      const StreamRingShape ring = ChooseRing(available, row_bytes, kGiB);
      EXPECT_LE(row_bytes, (ring.num_buffers - 1) * ring.buffer_bytes);
      EXPECT_GE(ring.num_buffers, 4u);
      EXPECT_LE(ring.num_buffers, 64u);
      EXPECT_EQ(ring.buffer_bytes % BlockFile::kBlockBytes, 0u);
    }
  }
}

TEST(ChooseRingTest, ShapesOfPublishedModels) {
  const struct {
    uint64_t available_bytes;
    uint64_t row_bytes;
    uint64_t streamable_bytes;
    uint32_t num_buffers;
    uint64_t buffer_bytes;
  } kCases[] = {
      // Small models: a large ring would read much more.
      {0, 3072, 20 * kMiB, 4, 64 * kKiB},
      {2 * kMiB, 3072, 20 * kMiB, 4, 64 * kKiB},
      {5 * kMiB, 3072, 20 * kMiB, 4, 128 * kKiB},
      {10 * kMiB, 9728, 20 * kMiB, 4, 256 * kKiB},
      {20 * kMiB, 9728, 40 * kMiB, 8, 256 * kKiB},
      {40 * kMiB, 37888, 80 * kMiB, 16, 256 * kKiB},
      // SmolLM2, Qwen2.5 7B.
      {0, 3072, 256 * kMiB, 4, 64 * kKiB},
      {kMiB, 3072, 256 * kMiB, 4, 64 * kKiB},
      {2 * kMiB, 3072, 256 * kMiB, 4, 128 * kKiB},
      {5 * kMiB, 3072, 256 * kMiB, 8, 256 * kKiB},
      {10 * kMiB, 3072, 256 * kMiB, 16, 256 * kKiB},
      {10 * kMiB, 37888, 15 * kGiB, 16, 256 * kKiB},
      {kNoBudget, 37888, kGiB, 8, kMiB},
  };
  for (const auto& c : kCases) {
    const StreamRingShape ring =
        ChooseRing(c.available_bytes, c.row_bytes, c.streamable_bytes);
    EXPECT_EQ(ring.num_buffers, c.num_buffers) << c.available_bytes;
    EXPECT_EQ(ring.buffer_bytes, c.buffer_bytes) << c.available_bytes;
  }
}

TEST(ChooseRingTest, WhatMayNotStreamIsTakenOffBefore) {
  ResidencyRequest request;
  request.steps.push_back(
      {{.tensor = 0, .num_rows = 10'000, .row_bytes = 1000, .may_stream = true},
       {.tensor = 1, .num_rows = 30'000, .row_bytes = 1000}});
  request.available_bytes = 40'000'000;
  const StreamRingShape small = ChooseRing(request);
  EXPECT_LT(small.num_buffers * small.buffer_bytes, 3 * kMiB);
  // Whatever is available, a plan that was possible stays so.
  bool has_fitted = false;
  for (uint64_t available = 29'000'000; available < 90'000'000;
       available += 10'007) {
    request.available_bytes = available;
    request.ring_bytes =
        StreamBufferBytes(ChooseRing(request), MaxRowBytes(request));
    const bool fits = PlanResidency(request).ok();
    ASSERT_FALSE(has_fitted && !fits) << available;
    has_fitted |= fits;
  }
  EXPECT_TRUE(has_fitted);
}

}  // namespace
}  // namespace lowmem
