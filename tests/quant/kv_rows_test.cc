// SPDX-License-Identifier: Apache-2.0
// Results are compared by bits with those of decoded rows in the documented
// order, on every target: fused ones so agree with each other.
#include "quant/kv_rows.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::LaneDot;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBF16,
                                 KvFormat::kQ8};
constexpr float kSentinel = -12345.0f;

// Encoded rows, one behind the other from an odd address on, up to the end of
// their allocation; and what they stand for.
struct EncodedRows {
  EncodedRows(KvFormat format, size_t num_rows, size_t n, uint32_t seed)
      : row_bytes(KvRowBytes(format, n)),
        room(1 + num_rows * row_bytes),
        decoded(num_rows * n) {
    const std::vector<float> source = RandomFloats(num_rows * n + 1, seed);
    for (size_t i = 0; i < num_rows; ++i) {
      EncodeKvRow(format, &source[i * n], n, Row(i));
      DecodeKvRow(format, Row(i), n, &decoded[i * n]);
    }
  }
  uint8_t* Row(size_t i) { return room.data() + 1 + i * row_bytes; }

  size_t row_bytes;
  std::vector<uint8_t> room;
  std::vector<float> decoded;
};

std::vector<size_t> HeadDims() {
  std::vector<size_t> dims;
  for (size_t n = 1; n <= 70; ++n) dims.push_back(n);
  for (const size_t n : {79, 80, 81, 95, 96, 97, 112, 127, 128, 129, 143, 160,
                         191, 192, 193, 240, 255, 256, 300}) {
    dims.push_back(n);
  }
  return dims;
}

class KvRowsTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(KvRowsTest);

TEST_P(KvRowsTest, DotKeysIsADotProductForEachKey) {
  for (const KvFormat format : kFormats) {
    for (const size_t n : HeadDims()) {
      for (const size_t num_keys : {0, 1, 2, 3, 4, 5, 7, 16}) {
        EncodedRows keys(format, num_keys, n, 13);
        const std::vector<float> q = RandomFloats(n, 12);
        std::vector<float> out(num_keys + 1, kSentinel);
        DotKeys(format, q.data(), keys.Row(0), num_keys, n, 0.125f, out.data());
        for (size_t k = 0; k < num_keys; ++k) {
          const float dot =
              LaneDot(&keys.decoded[k * n], q.data(), n, IsFused());
          ASSERT_THAT(out[k], SameBits(0.125f * dot))
              << "format " << static_cast<int>(format) << " n " << n << " of "
              << num_keys << " key " << k;
        }
        EXPECT_EQ(out.back(), kSentinel);
      }
    }
  }
}

TEST_P(KvRowsTest, AddWeightedValuesAddsInOrderOfPosition) {
  constexpr size_t kNumValues = 9;
  for (const KvFormat format : kFormats) {
    for (const size_t n : HeadDims()) {
      EncodedRows values(format, kNumValues, n, 15);
      const std::vector<float> weights = RandomFloats(kNumValues, 14);
      std::vector<float> whole = RandomFloats(n, 16);
      const std::vector<float> start = whole;
      std::vector<float> pieces = whole;
      whole.push_back(kSentinel);
      AddWeightedValues(format, weights.data(), values.Row(0), kNumValues, n,
                        whole.data());
      AddWeightedValues(format, weights.data(), values.Row(0), 4, n,
                        pieces.data());
      AddWeightedValues(format, weights.data() + 4, values.Row(4),
                        kNumValues - 4, n, pieces.data());
      for (size_t j = 0; j < n; ++j) {
        float expected = start[j];
        for (size_t i = 0; i < kNumValues; ++i) {
          const float value = values.decoded[i * n + j];
          expected = IsFused() ? std::fma(weights[i], value, expected)
                               : weights[i] * value + expected;
        }
        ASSERT_THAT(whole[j], SameBits(expected))
            << "format " << static_cast<int>(format) << " n " << n << " " << j;
        ASSERT_THAT(pieces[j], SameBits(expected)) << n << " " << j;
      }
      EXPECT_EQ(whole.back(), kSentinel);
    }
  }
}

TEST_P(KvRowsTest, NoValuesLeaveTheSumAlone) {
  for (const KvFormat format : kFormats) {
    std::vector<float> sum = {-0.0f, 1.0f, kSentinel};
    AddWeightedValues(format, nullptr, nullptr, 0, sum.size(), sum.data());
    EXPECT_THAT(sum[0], SameBits(-0.0f));
    EXPECT_EQ(sum[1], 1.0f);
    EXPECT_EQ(sum[2], kSentinel);
  }
}

TEST_P(KvRowsTest, NaNReachesTheResult) {
  for (const KvFormat format : kFormats) {
    for (const size_t n : {3, 16, 33, 64, 80}) {
      std::vector<float> row(n, 1.0f);
      row[n - 1] = std::numeric_limits<float>::quiet_NaN();
      std::vector<uint8_t> bytes(KvRowBytes(format, n));
      EncodeKvRow(format, row.data(), n, bytes.data());
      const std::vector<float> q(n, 1.0f);
      float score = 0;
      DotKeys(format, q.data(), bytes.data(), 1, n, 1.0f, &score);
      EXPECT_TRUE(std::isnan(score)) << n;
      std::vector<float> sum(n, 0.0f);
      const float weight = 0.0f;  // not even a weight of zero hides it
      AddWeightedValues(format, &weight, bytes.data(), 1, n, sum.data());
      EXPECT_TRUE(std::isnan(sum[n - 1])) << n;
    }
  }
}

}  // namespace
}  // namespace lowmem
