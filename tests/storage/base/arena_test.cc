// SPDX-License-Identifier: Apache-2.0
#include "storage/base/arena.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

TEST(ArenaPlanTest, BuffersFollowEachOtherAtAlignedOffsets) {
  ArenaPlan plan;
  EXPECT_EQ(*plan.AddFloats("one", 1), 0u);
  EXPECT_EQ(*plan.AddFloats("none", 0), 1u);
  EXPECT_EQ(*plan.AddFloats("seventeen", 17), 2u);
  ASSERT_EQ(plan.buffers().size(), 3u);
  EXPECT_EQ(plan.buffers()[0].offset_bytes, 0u);
  EXPECT_EQ(plan.buffers()[0].size_bytes, 4u);
  EXPECT_EQ(plan.buffers()[2].offset_bytes, 64u);
  EXPECT_EQ(plan.buffers()[2].size_bytes, 68u);
  EXPECT_EQ(plan.total_bytes(), 64u + 128u);
}

TEST(ArenaPlanTest, OverflowIsRefusedByName) {
  ArenaPlan plan;
  EXPECT_THAT(plan.AddFloats("scores", ~uint64_t{0}),
              Fails(kResourceExhausted, "scores"));
  EXPECT_THAT(plan.AddFloats("scores", uint64_t{1} << 61),
              Fails(kResourceExhausted, "scores"));
  ASSERT_THAT(plan.AddFloats("large", uint64_t{1} << 60), testing::IsOk());
  EXPECT_THAT(plan.AddFloats("scores", uint64_t{1} << 60),
              Fails(kResourceExhausted, "scores"));
  EXPECT_EQ(plan.buffers().size(), 1u);
  EXPECT_EQ(plan.total_bytes(), uint64_t{1} << 62);
}

TEST(ArenaTest, SpansAreAlignedDisjointAndZero) {
  ArenaPlan plan;
  for (const uint64_t num_floats : {3, 0, 16, 17, 1000}) {
    ASSERT_THAT(plan.AddFloats("buffer", num_floats), testing::IsOk());
  }
  MemoryAccount account("arena", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(Arena arena, Arena::Create(plan, account));
  EXPECT_EQ(arena.size_bytes(), plan.total_bytes());
  const float* last_end = nullptr;
  for (size_t i = 0; i < plan.buffers().size(); ++i) {
    const absl::Span<float> floats = arena.Floats(i);
    ASSERT_EQ(floats.size(), plan.buffers()[i].size_bytes / sizeof(float));
    if (floats.empty()) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(floats.data()) %
                  ArenaPlan::kBufferAlignmentBytes,
              0u);
    EXPECT_TRUE(last_end == nullptr || floats.data() >= last_end);
    last_end = floats.data() + floats.size();
    for (float& f : floats) {
      EXPECT_EQ(f, 0.0f);
      f = 1.0f;
    }
  }
}

TEST(ArenaTest, EmptyPlanMakesAnEmptyArena) {
  MemoryAccount account("arena", 0, nullptr);
  ASSERT_OK_AND_ASSIGN(const Arena arena, Arena::Create(ArenaPlan(), account));
  EXPECT_EQ(arena.size_bytes(), 0u);
}

TEST(ArenaTest, RefusalNamesTheLargestBuffer) {
  ArenaPlan plan;
  ASSERT_THAT(plan.AddFloats("hidden", 576), testing::IsOk());
  ASSERT_THAT(plan.AddFloats("logits", 49152), testing::IsOk());
  ASSERT_THAT(plan.AddFloats("scores", 2048), testing::IsOk());
  MemoryAccount account("arena", 4096, nullptr);
  EXPECT_THAT(
      Arena::Create(plan, account),
      Fails(kResourceExhausted, "the largest item is logits with 192 KiB"));
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(ArenaTest, MoveKeepsTheSpans) {
  ArenaPlan plan;
  ASSERT_OK_AND_ASSIGN(const size_t idx, plan.AddFloats("x", 8));
  MemoryAccount account("arena", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(Arena first, Arena::Create(plan, account));
  const absl::Span<float> before = first.Floats(idx);
  Arena second = std::move(first);
  EXPECT_EQ(second.Floats(idx).data(), before.data());
}

}  // namespace
}  // namespace lowmem
