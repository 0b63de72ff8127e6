// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/kv_cache.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

constexpr KvShape kShape = {.num_layers = 3, .num_kv_heads = 2, .head_dim = 6};
constexpr uint32_t kPage = KvCache::kPageTokens;
// The system gives whole pages of its own.
constexpr uint64_t kPageHeld = 8192;

class KvCacheTest : public ::testing::Test {
 protected:
  MemoryAccount account_{"cache", MemoryAccount::kUnlimited, nullptr};
};

TEST_F(KvCacheTest, BytesPerToken) {
  EXPECT_EQ(KvCache::BytesPerToken(kShape), 3 * 2 * 2 * 6 * 4u);
  // SmolLM2: 46 KB a token.
  EXPECT_EQ(KvCache::BytesPerToken(
                {.num_layers = 30, .num_kv_heads = 3, .head_dim = 64}),
            46080u);
  // Beyond 32 bits.
  EXPECT_EQ(KvCache::BytesPerToken(
                {.num_layers = 4096, .num_kv_heads = 4096, .head_dim = 256}),
            uint64_t{4096} * 4096 * 256 * 8);
}

TEST_F(KvCacheTest, TakesNothingBeforeReserve) {
  const KvCache cache(kShape, 1000, account_);
  EXPECT_EQ(account_.used_bytes(), 0u);
  EXPECT_EQ(cache.allocated_bytes(), 0u);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(cache.max_tokens(), 1000u);
}

TEST_F(KvCacheTest, GrowsByWholePages) {
  KvCache cache(kShape, 1000, account_);
  const uint64_t page_bytes = kPage * KvCache::BytesPerToken(kShape);
  struct Step {
    uint32_t num_tokens;
    uint64_t num_pages;
  };
  for (const Step step : {Step{1, 1}, Step{kPage - 1, 1}, Step{1, 2},
                          Step{2 * kPage, 4}, Step{0, 4}}) {
    ASSERT_THAT(cache.Reserve(step.num_tokens), IsOk());
    cache.Advance(step.num_tokens);
    EXPECT_EQ(cache.allocated_bytes(), step.num_pages * page_bytes);
    EXPECT_EQ(account_.used_bytes(), step.num_pages * kPageHeld);
  }
  EXPECT_EQ(cache.size(), 3 * kPage + 1);
}

TEST_F(KvCacheTest, ReserveTwiceForTheSamePositionsTakesNoMore) {
  KvCache cache(kShape, 1000, account_);
  ASSERT_THAT(cache.Reserve(kPage), IsOk());
  ASSERT_THAT(cache.Reserve(kPage), IsOk());
  EXPECT_EQ(account_.used_bytes(), kPageHeld);
}

TEST_F(KvCacheTest, EveryRowIsItsOwnAndKeepsItsPlace) {
  constexpr uint32_t kTokens = 2 * kPage + 3;
  KvCache cache(kShape, kTokens, account_);
  ASSERT_THAT(cache.Reserve(kTokens), IsOk());
  float number = 0;
  for (uint32_t pos = 0; pos < kTokens; ++pos) {
    for (uint32_t layer = 0; layer < kShape.num_layers; ++layer) {
      for (uint32_t head = 0; head < kShape.num_kv_heads; ++head) {
        std::fill_n(cache.Key(layer, head, pos), kShape.head_dim, ++number);
        std::fill_n(cache.Value(layer, head, pos), kShape.head_dim, ++number);
      }
    }
  }
  // Read as attention does, page by page; an overlap would have lost a number.
  number = 0;
  for (uint32_t pos = 0; pos < kTokens; ++pos) {
    const uint32_t row = pos % kPage * kShape.head_dim;
    for (uint32_t layer = 0; layer < kShape.num_layers; ++layer) {
      for (uint32_t head = 0; head < kShape.num_kv_heads; ++head) {
        const float* key = cache.KeyPage(layer, head, pos / kPage) + row;
        const float* value = cache.ValuePage(layer, head, pos / kPage) + row;
        ++number;
        EXPECT_EQ(std::count(key, key + kShape.head_dim, number),
                  kShape.head_dim);
        ++number;
        EXPECT_EQ(std::count(value, value + kShape.head_dim, number),
                  kShape.head_dim);
      }
    }
  }
}

TEST_F(KvCacheTest, OneMoreThanMaxTokensIsOutOfRange) {
  KvCache cache(kShape, kPage + 2, account_);
  EXPECT_THAT(cache.Reserve(kPage + 3),
              Fails(absl::StatusCode::kOutOfRange, "at most 18"));
  EXPECT_EQ(account_.used_bytes(), 0u);
  ASSERT_THAT(cache.Reserve(kPage + 2), IsOk());
  cache.Advance(kPage + 2);
  EXPECT_THAT(cache.Reserve(1),
              Fails(absl::StatusCode::kOutOfRange, "after 18"));
  // A sum that wraps around 32 bits.
  EXPECT_THAT(cache.Reserve(UINT32_MAX),
              Fails(absl::StatusCode::kOutOfRange, ""));
  EXPECT_THAT(cache.Reserve(0), IsOk());
}

TEST_F(KvCacheTest, RefusedReserveKeepsWhatWasThere) {
  MemoryAccount two_pages("cache", 2 * kPageHeld, nullptr);
  KvCache cache(kShape, 1000, two_pages);
  ASSERT_THAT(cache.Reserve(1), IsOk());
  cache.Advance(1);
  *cache.Key(0, 0, 0) = 7;
  EXPECT_THAT(cache.Reserve(4 * kPage),
              Fails(absl::StatusCode::kResourceExhausted, "cache"));
  EXPECT_EQ(two_pages.used_bytes(), kPageHeld);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(*cache.KeyPage(0, 0, 0), 7);
  EXPECT_THAT(cache.Reserve(kPage), IsOk());
}

TEST_F(KvCacheTest, TruncateGivesWholePagesBack) {
  KvCache cache(kShape, 1000, account_);
  ASSERT_THAT(cache.Reserve(5 * kPage), IsOk());
  cache.Advance(3 * kPage + 1);
  *cache.Key(1, 1, kPage - 1) = 7;
  struct Step {
    uint32_t new_size;
    uint64_t num_pages;
  };
  for (const Step step :
       {Step{3 * kPage + 1, 4},  // reserved ones only
        Step{3 * kPage, 3}, Step{2 * kPage + 1, 3}, Step{kPage, 1}}) {
    cache.Truncate(step.new_size);
    EXPECT_EQ(cache.size(), step.new_size);
    EXPECT_EQ(account_.used_bytes(), step.num_pages * kPageHeld)
        << step.new_size;
  }
  EXPECT_EQ(*cache.Key(1, 1, kPage - 1), 7);
  cache.Truncate(0);
  EXPECT_EQ(account_.used_bytes(), 0u);
  EXPECT_THAT(cache.Reserve(1), IsOk());
}

TEST_F(KvCacheTest, DestructorGivesEverythingBack) {
  {
    KvCache cache(kShape, 1000, account_);
    ASSERT_THAT(cache.Reserve(100), IsOk());
    EXPECT_GT(account_.used_bytes(), 0u);
  }
  EXPECT_EQ(account_.used_bytes(), 0u);
}

}  // namespace
}  // namespace lowmem::testing
