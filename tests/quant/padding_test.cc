// SPDX-License-Identifier: Apache-2.0
// What lies around rows and activations is NaN here: none of it may reach a
// result, not even multiplied by the zeros that fill up a last group.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "quant/decode.h"
#include "quant/kv_codec.h"
#include "quant/kv_rows.h"
#include "quant/matmul.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/one_row.h"
#include "tests/quant/kernels/vector_reference.h"
#include "tests/support/matmul_scratch.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::kNaN;
using ::lowmem::testing::LaneDot;
using ::lowmem::testing::OneRow;
using ::lowmem::testing::Padded;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;

class PaddingTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(PaddingTest);

// Column counts around the edges of vectors, groups and panels.
std::vector<size_t> ColumnCounts() {
  std::vector<size_t> counts = {127, 128, 129,  255,  256,  257,
                                511, 513, 1023, 1024, 1025, 2049};
  for (size_t n = 1; n <= 70; ++n) counts.push_back(n);
  return counts;
}

// Rows of encoded numbers from an odd address on. Around them and between them
// every byte is 0xFF: NaN in every float type, and in a scale.
struct PaddedRows {
  PaddedRows(size_t num_rows, size_t bytes, size_t gap_bytes)
      : row_bytes(bytes + gap_bytes),
        room(kBefore + num_rows * row_bytes + kBehind, 0xFF) {}
  uint8_t* Row(size_t i) { return room.data() + kBefore + i * row_bytes; }

  static constexpr size_t kBefore = 65;
  static constexpr size_t kBehind = 256;
  size_t row_bytes;
  std::vector<uint8_t> room;
};

// `values` as `dtype`, rounded where that is needed.
void Store(DType dtype, const std::vector<float>& values, uint8_t* dst) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    if (dtype == DType::kF32) {
      std::memcpy(dst + 4 * i, &bits, 4);
      continue;
    }
    // Any bits with an exponent near that of 1 do.
    uint16_t word = static_cast<uint16_t>(bits >> 16);
    if (dtype == DType::kF16) word = (word & 0x83FF) | 0x3800;
    std::memcpy(dst + 2 * i, &word, 2);
  }
}

TEST_P(PaddingTest, AroundRowsAndActivationsOfAProduct) {
  ASSERT_OK_AND_ASSIGN(const auto pool, ThreadPool::Create(1));
  constexpr size_t kNumRows = 7;
  constexpr size_t kMaxTokens = 12;
  constexpr size_t kGap = 3;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const size_t n : ColumnCounts()) {
      const size_t bytes = *RowBytes(dtype, n);
      PaddedRows rows(kNumRows, bytes, kGap * *RowBytes(dtype, 1));
      std::vector<float> decoded(kNumRows * n);
      for (size_t r = 0; r < kNumRows; ++r) {
        Store(dtype, RandomFloats(n, static_cast<uint32_t>(61 + r)),
              rows.Row(r));
        DecodeRow(dtype, rows.Row(r), n, &decoded[r * n]);
      }
      const size_t x_stride = n + kGap;
      std::vector<float> x = RandomFloats(kMaxTokens * x_stride, 62);
      for (size_t t = 0; t < kMaxTokens; ++t) {
        for (size_t i = n; i < x_stride; ++i) x[t * x_stride + i] = kNaN;
      }
      Padded activations(x, n % 17);
      for (const size_t num_tokens : {1, 2, 3, 5, 8, 12}) {
        std::vector<float> out(num_tokens * kNumRows);
        MatMulAlone({dtype, rows.Row(0), rows.row_bytes, kNumRows, n},
                    activations.data(), x_stride, num_tokens, out.data(),
                    kNumRows, *pool);
        for (size_t t = 0; t < num_tokens; ++t) {
          for (size_t r = 0; r < kNumRows; ++r) {
            ASSERT_THAT(out[t * kNumRows + r],
                        SameBits(LaneDot(&decoded[r * n], &x[t * x_stride], n,
                                         IsFused())))
                << TraitsOf(dtype).name << " cols " << n << " tokens "
                << num_tokens << " token " << t << " row " << r;
          }
        }
      }
    }
  }
}

// Block types have no partial groups, but rows in odd places with gaps.
TEST_P(PaddingTest, AroundRowsOfBlocks) {
  ASSERT_OK_AND_ASSIGN(const auto pool, ThreadPool::Create(1));
  constexpr size_t kNumRows = 7;
  constexpr size_t kMaxTokens = 5;
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const DTypeTraits& traits = TraitsOf(dtype);
    if (!traits.decodable || traits.block_elements == 1) continue;
    for (const size_t num_blocks : {1, 2, 3, 5, 9}) {
      const size_t n = num_blocks * traits.block_elements;
      const size_t bytes = *RowBytes(dtype, n);
      PaddedRows rows(kNumRows, bytes, 7);
      std::vector<float> decoded(kNumRows * n);
      std::mt19937 random(static_cast<uint32_t>(63 + i));
      for (size_t r = 0; r < kNumRows; ++r) {
        for (size_t b = 0; b < bytes; ++b) {
          rows.Row(r)[b] = static_cast<uint8_t>(random());
        }
        DecodeRow(dtype, rows.Row(r), n, &decoded[r * n]);
      }
      const size_t x_stride = n + 3;
      std::vector<float> x = RandomFloats(kMaxTokens * x_stride, 64);
      for (size_t t = 0; t < kMaxTokens; ++t) {
        for (size_t k = n; k < x_stride; ++k) x[t * x_stride + k] = kNaN;
      }
      Padded activations(x, num_blocks);
      for (const size_t num_tokens : {size_t{1}, kMaxTokens}) {
        std::vector<float> out(num_tokens * kNumRows);
        MatMulAlone({dtype, rows.Row(0), rows.row_bytes, kNumRows, n},
                    activations.data(), x_stride, num_tokens, out.data(),
                    kNumRows, *pool);
        for (size_t t = 0; t < num_tokens; ++t) {
          for (size_t r = 0; r < kNumRows; ++r) {
            ASSERT_THAT(out[t * kNumRows + r],
                        SameBits(LaneDot(&decoded[r * n], &x[t * x_stride], n,
                                         IsFused())))
                << traits.name << " blocks " << num_blocks << " row " << r;
          }
        }
      }
    }
  }
}

TEST_P(PaddingTest, AroundADotProduct) {
  for (const size_t n : ColumnCounts()) {
    const std::vector<float> a = RandomFloats(n, 65);
    const std::vector<float> b = RandomFloats(n, 66);
    Padded left(a, n % 5), right(b, n % 17);
    EXPECT_THAT(Dot(left.data(), right.data(), n),
                SameBits(LaneDot(a.data(), b.data(), n, IsFused())))
        << n;
  }
}

TEST_P(PaddingTest, AroundKeysAndValues) {
  constexpr size_t kNumRows = 5;
  for (const KvFormat format :
       {KvFormat::kF32, KvFormat::kBF16, KvFormat::kQ8}) {
    for (const size_t n : ColumnCounts()) {
      if (n > 300) continue;
      PaddedRows rows(kNumRows, KvRowBytes(format, n), 0);
      std::vector<float> decoded(kNumRows * n);
      for (size_t r = 0; r < kNumRows; ++r) {
        EncodeKvRow(format, RandomFloats(n, static_cast<uint32_t>(r)).data(), n,
                    rows.Row(r));
        DecodeKvRow(format, rows.Row(r), n, &decoded[r * n]);
      }
      const std::vector<float> q = RandomFloats(n, 67);
      const std::vector<float> weights = RandomFloats(kNumRows, 68);
      Padded query(q, n % 5), factors(weights, n % 3);
      Padded scores(std::vector<float>(kNumRows), n % 17);
      const float* const query_row = query.data();
      DotKeys(format, OneRow(query_row, n), rows.Row(0), nullptr, kNumRows,
              0.5f, scores.data(), kNumRows);
      Padded sum(std::vector<float>(n, 0.0f), n % 17);
      AddWeightedValues(format, factors.data(), kNumRows, rows.Row(0), nullptr,
                        kNumRows, 0, n, OneRow(sum.data(), n));
      EXPECT_TRUE(scores.NeighboursUntouched());
      EXPECT_TRUE(sum.NeighboursUntouched());
      for (size_t r = 0; r < kNumRows; ++r) {
        ASSERT_THAT(
            scores.data()[r],
            SameBits(0.5f * LaneDot(&decoded[r * n], q.data(), n, IsFused())))
            << static_cast<int>(format) << " " << n;
      }
      for (size_t i = 0; i < n; ++i) {
        float expected = 0;
        for (size_t r = 0; r < kNumRows; ++r) {
          const float value = decoded[r * n + i];
          expected = IsFused() ? std::fma(weights[r], value, expected)
                               : weights[r] * value + expected;
        }
        ASSERT_THAT(sum.data()[i], SameBits(expected))
            << static_cast<int>(format) << " " << n << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace lowmem
