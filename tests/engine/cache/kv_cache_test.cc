// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/kv_cache.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

constexpr KvShape kShape = {.num_layers = 3, .num_kv_heads = 2, .head_dim = 6};
constexpr uint32_t kPage = KvCache::kPageTokens;
// The system gives whole pages of its own.
constexpr uint64_t kPageHeld = 8192;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBF16,
                                 KvFormat::kQ8};

class KvCacheTest : public ::testing::Test {
 protected:
  // Stores a row of one number each, which every format keeps exactly.
  static void StoreNumbers(KvCache& cache, uint32_t layer, uint32_t head,
                           uint32_t pos, float key, float value) {
    const std::vector<float> keys = NumberRow(cache, key);
    const std::vector<float> values = NumberRow(cache, value);
    cache.Store(layer, head, pos, keys.data(), values.data());
  }
  // An integer up to 127. One of 127 in each block of Q8 makes its scale 1.
  static std::vector<float> NumberRow(const KvCache& cache, float number) {
    std::vector<float> row(cache.shape().head_dim, number);
    for (size_t i = 0; i < row.size(); i += kKvQ8Block) row[i] = 127.0f;
    return row;
  }
  // A row as attention finds it in its page.
  static std::vector<float> Decoded(const KvCache& cache, const uint8_t* page,
                                    uint32_t pos) {
    const KvShape& shape = cache.shape();
    std::vector<float> row(shape.head_dim);
    DecodeKvRow(shape.format,
                page + pos % kPage * KvRowBytes(shape.format, shape.head_dim),
                shape.head_dim, row.data());
    return row;
  }

  MemoryAccount account_{"cache", MemoryAccount::kUnlimited, nullptr};
};

TEST_F(KvCacheTest, BytesPerToken) {
  EXPECT_EQ(KvCache::BytesPerToken(kShape), 3 * 2 * 2 * 6 * 4u);
  // SmolLM2: 46 KB a token.
  EXPECT_EQ(KvCache::BytesPerToken(
                {.num_layers = 30, .num_kv_heads = 3, .head_dim = 64}),
            46080u);
  EXPECT_EQ(KvCache::BytesPerToken({.num_layers = 30,
                                    .num_kv_heads = 3,
                                    .head_dim = 64,
                                    .format = KvFormat::kBF16}),
            23040u);
  EXPECT_EQ(KvCache::BytesPerToken({.num_layers = 30,
                                    .num_kv_heads = 3,
                                    .head_dim = 64,
                                    .format = KvFormat::kQ8}),
            12240u);
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
  for (const KvFormat format : kFormats) {
    for (const uint32_t head_dim : {2u, 6u, 33u, 80u}) {
      KvShape shape = kShape;
      shape.head_dim = head_dim;
      shape.format = format;
      KvCache cache(shape, kTokens, account_);
      ASSERT_THAT(cache.Reserve(kTokens), IsOk());
      // Prime to the number of rows, so that neighbours of any kind differ.
      const auto number_of = [](uint32_t row) {
        return static_cast<float>(row % 113);
      };
      uint32_t row = 0;
      for (uint32_t pos = 0; pos < kTokens; ++pos) {
        for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
          for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
            StoreNumbers(cache, layer, head, pos, number_of(row),
                         number_of(row + 1));
            row += 2;
          }
        }
      }
      // Read as attention does, page by page; an overlap would have lost a
      // number.
      row = 0;
      for (uint32_t pos = 0; pos < kTokens; ++pos) {
        for (uint32_t layer = 0; layer < shape.num_layers; ++layer) {
          for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
            const uint8_t* keys = cache.KeyPage(layer, head, pos / kPage);
            const uint8_t* values = cache.ValuePage(layer, head, pos / kPage);
            EXPECT_EQ(Decoded(cache, keys, pos),
                      NumberRow(cache, number_of(row)));
            EXPECT_EQ(Decoded(cache, values, pos),
                      NumberRow(cache, number_of(row + 1)));
            row += 2;
          }
        }
      }
    }
  }
}

TEST_F(KvCacheTest, PagesOfFewerBytesForRoundedNumbers) {
  KvShape shape = {.num_layers = 30, .num_kv_heads = 3, .head_dim = 64};
  uint64_t bytes[3];
  for (const KvFormat format : kFormats) {
    shape.format = format;
    KvCache cache(shape, 1000, account_);
    ASSERT_THAT(cache.Reserve(100), IsOk());
    EXPECT_EQ(cache.allocated_bytes(),
              7 * kPage * KvCache::BytesPerToken(shape));
    bytes[static_cast<size_t>(format)] = cache.allocated_bytes();
  }
  EXPECT_EQ(2 * bytes[1], bytes[0]);
  EXPECT_EQ(64 * bytes[2], 17 * bytes[0]);  // 68 of 256 bytes
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
  StoreNumbers(cache, 0, 0, 0, 7, 8);
  EXPECT_THAT(cache.Reserve(4 * kPage),
              Fails(absl::StatusCode::kResourceExhausted, "cache"));
  EXPECT_EQ(two_pages.used_bytes(), kPageHeld);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_EQ(Decoded(cache, cache.KeyPage(0, 0, 0), 0), NumberRow(cache, 7));
  EXPECT_THAT(cache.Reserve(kPage), IsOk());
}

TEST_F(KvCacheTest, TruncateGivesWholePagesBack) {
  KvCache cache(kShape, 1000, account_);
  ASSERT_THAT(cache.Reserve(5 * kPage), IsOk());
  cache.Advance(3 * kPage + 1);
  StoreNumbers(cache, 1, 1, kPage - 1, 7, 8);
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
  EXPECT_EQ(Decoded(cache, cache.ValuePage(1, 1, 0), kPage - 1),
            NumberRow(cache, 8));
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
