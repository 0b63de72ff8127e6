// SPDX-License-Identifier: Apache-2.0
// Every stored value of the types of 8 and 16 bits goes through whole vectors
// of each kernel and means there what it means alone.
#include <bit>
#include <cstring>
#include <vector>

#include "quant/decode.h"
#include "quant/kv_codec.h"
#include "quant/kv_rows.h"
#include "quant/matmul.h"
#include "quant/scalar_convert.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/one_row.h"
#include "tests/support/matmul_scratch.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::LaneDot;
using ::lowmem::testing::OneRow;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;

constexpr size_t kNumWords = 65536;
// Two groups of 16: whole vectors on every target.
constexpr size_t kNumCols = 32;

class EveryValueTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(EveryValueTest);

// [kNumWords, kNumCols], a row of equal words for each word.
std::vector<uint8_t> RowsOfEachWord() {
  std::vector<uint8_t> bytes(kNumWords * kNumCols * 2);
  for (size_t i = 0; i < kNumWords * kNumCols; ++i) {
    const uint16_t word = static_cast<uint16_t>(i / kNumCols);
    std::memcpy(&bytes[2 * i], &word, 2);
  }
  return bytes;
}

TEST_P(EveryValueTest, OfF16AndBF16InAProduct) {
  ASSERT_OK_AND_ASSIGN(const auto pool, ThreadPool::Create(1));
  const std::vector<uint8_t> rows = RowsOfEachWord();
  constexpr size_t kMaxTokens = 5;
  const std::vector<float> x = RandomFloats(kMaxTokens * kNumCols, 51);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const WeightRows weights = {dtype, rows.data(), 2 * kNumCols, kNumWords,
                                kNumCols};
    for (const size_t num_tokens : {size_t{1}, kMaxTokens}) {
      std::vector<float> out(num_tokens * kNumWords);
      MatMulAlone(weights, x.data(), kNumCols, num_tokens, out.data(),
                  kNumWords, *pool);
      for (size_t r = 0; r < kNumWords; ++r) {
        const uint16_t word = static_cast<uint16_t>(r);
        const std::vector<float> row(
            kNumCols, dtype == DType::kF16 ? F16ToF32(word) : BF16ToF32(word));
        for (size_t t = 0; t < num_tokens; ++t) {
          ASSERT_THAT(out[t * kNumWords + r],
                      SameBits(LaneDot(row.data(), &x[t * kNumCols], kNumCols,
                                       IsFused())))
              << TraitsOf(dtype).name << " " << r << " token " << t;
        }
      }
    }
  }
}

// 32 codes a block behind a binary16 scale; the product is rounded once.
TEST_P(EveryValueTest, OfQ8_0WithEveryScale) {
  constexpr size_t kBlocks = 8;  // 256 codes
  std::vector<uint8_t> row(kBlocks * 34);
  std::vector<float> decoded(kBlocks * 32);
  for (uint32_t scale = 0; scale < kNumWords; ++scale) {
    for (size_t b = 0; b < kBlocks; ++b) {
      row[34 * b] = static_cast<uint8_t>(scale & 0xFF);
      row[34 * b + 1] = static_cast<uint8_t>(scale >> 8);
      for (size_t i = 0; i < 32; ++i) {
        row[34 * b + 2 + i] = static_cast<uint8_t>(32 * b + i);
      }
    }
    DecodeRow(DType::kQ8_0, row.data(), decoded.size(), decoded.data());
    const float value = F16ToF32(static_cast<uint16_t>(scale));
    for (size_t code = 0; code < decoded.size(); ++code) {
      const float expected =
          value * static_cast<float>(static_cast<int8_t>(code));
      // The matcher is too slow for 17 million values that agree.
      if (std::bit_cast<uint32_t>(decoded[code]) ==
          std::bit_cast<uint32_t>(expected)) {
        continue;
      }
      ASSERT_THAT(decoded[code], SameBits(expected)) << scale << " " << code;
    }
  }
}

std::vector<float> Scores(KvFormat format, const std::vector<float>& q,
                          const std::vector<uint8_t>& keys, size_t num_keys) {
  std::vector<float> out(num_keys);
  DotKeys(format, OneRow(q.data(), q.size()), keys.data(), nullptr, num_keys,
          1.0f, out.data(), num_keys);
  return out;
}

// weight * row i, added to zeros.
std::vector<float> Weighted(KvFormat format, float weight, const uint8_t* row,
                            size_t n) {
  std::vector<float> sum(n, 0.0f);
  AddWeightedValues(format, &weight, 1, row, nullptr, 1, 0, n,
                    OneRow(sum.data(), n));
  return sum;
}

void ExpectKeysAndValues(KvFormat format, const std::vector<uint8_t>& rows,
                         const std::vector<float>& decoded, bool fused) {
  const std::vector<float> q = RandomFloats(kNumCols, 52);
  const size_t num_rows = decoded.size() / kNumCols;
  const size_t row_bytes = KvRowBytes(format, kNumCols);
  ASSERT_EQ(rows.size(), num_rows * row_bytes);
  const std::vector<float> scores = Scores(format, q, rows, num_rows);
  for (size_t r = 0; r < num_rows; ++r) {
    const float* row = &decoded[r * kNumCols];
    ASSERT_THAT(scores[r], SameBits(LaneDot(row, q.data(), kNumCols, fused)))
        << "row " << r;
    const std::vector<float> sum =
        Weighted(format, 1.0f, &rows[r * row_bytes], kNumCols);
    for (size_t i = 0; i < kNumCols; ++i) {
      // Adding to zero turns -0 into +0.
      ASSERT_THAT(sum[i], SameBits(row[i] + 0.0f)) << "row " << r << " " << i;
    }
  }
}

TEST_P(EveryValueTest, OfBF16KeysAndValues) {
  std::vector<float> decoded(kNumWords * kNumCols);
  for (size_t i = 0; i < decoded.size(); ++i) {
    decoded[i] = BF16ToF32(static_cast<uint16_t>(i / kNumCols));
  }
  ExpectKeysAndValues(KvFormat::kBF16, RowsOfEachWord(), decoded, IsFused());
}

TEST_P(EveryValueTest, OfQ8KeysAndValuesWithManyScales) {
  std::vector<uint8_t> rows;
  std::vector<float> decoded;
  // Each sign and exponent, infinities, NaNs and denormals among them.
  for (uint32_t scale = 0; scale < kNumWords; scale += 29) {
    for (uint32_t code = 0; code < 256; ++code) {
      rows.push_back(static_cast<uint8_t>(code));
      decoded.push_back(BF16ToF32(static_cast<uint16_t>(scale)) *
                        static_cast<float>(static_cast<int8_t>(code)));
      if (code % kNumCols + 1 < kNumCols) continue;
      rows.push_back(static_cast<uint8_t>(scale & 0xFF));
      rows.push_back(static_cast<uint8_t>(scale >> 8));
    }
  }
  std::vector<float> by_codec(kNumCols);
  const size_t row_bytes = KvRowBytes(KvFormat::kQ8, kNumCols);
  for (size_t r = 0; r < decoded.size() / kNumCols; ++r) {
    DecodeKvRow(KvFormat::kQ8, &rows[r * row_bytes], kNumCols, by_codec.data());
    for (size_t i = 0; i < kNumCols; ++i) {
      ASSERT_THAT(by_codec[i], SameBits(decoded[r * kNumCols + i])) << r;
    }
  }
  ExpectKeysAndValues(KvFormat::kQ8, rows, decoded, IsFused());
}

}  // namespace
}  // namespace lowmem
