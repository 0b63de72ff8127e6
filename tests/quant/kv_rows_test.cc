// SPDX-License-Identifier: Apache-2.0
// Results are compared by bits with those of decoded rows in the documented
// order, on every target: fused ones so agree with each other.
#include "quant/kv_rows.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/one_row.h"

namespace lowmem {
namespace {

using ::lowmem::testing::LaneDot;
using ::lowmem::testing::OneRow;
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

// Rows of a group of heads for some tokens, with room between the tokens.
struct Group {
  Group(size_t tokens, size_t group, size_t dim, uint32_t seed)
      : num_tokens(tokens),
        group_size(group),
        n(dim),
        token_stride(group * dim + 3),
        numbers(RandomFloats(tokens * token_stride, seed)) {}

  GroupRows<float> Rows() {
    return {.data = numbers.data(),
            .num_tokens = num_tokens,
            .group_size = group_size,
            .token_stride = token_stride,
            .n = n};
  }
  GroupRows<const float> ConstRows() const {
    return {.data = numbers.data(),
            .num_tokens = num_tokens,
            .group_size = group_size,
            .token_stride = token_stride,
            .n = n};
  }

  size_t num_tokens;
  size_t group_size;
  size_t n;
  size_t token_stride;
  std::vector<float> numbers;
};

// Groups of 1 to 8 heads, alone and for several tokens.
struct GroupShape {
  size_t num_tokens;
  size_t group_size;
};
constexpr GroupShape kGroupShapes[] = {{1, 1}, {1, 2}, {1, 3}, {1, 4},
                                       {1, 5}, {1, 6}, {1, 7}, {1, 8},
                                       {2, 3}, {5, 1}, {3, 7}};

class KvRowsTest : public lowmem::testing::EachTargetTest {
 protected:
  void ExpectDotKeys(KvFormat format, const GroupShape& shape, size_t num_keys,
                     size_t n) {
    SCOPED_TRACE(::testing::Message()
                 << "format " << static_cast<int>(format) << ", "
                 << shape.num_tokens << " tokens of " << shape.group_size
                 << " heads of " << n << ", " << num_keys << " keys");
    EncodedRows keys(format, num_keys, n, 13);
    const Group q(shape.num_tokens, shape.group_size, n, 12);
    const size_t stride = num_keys + 1;
    std::vector<float> out(q.ConstRows().num_rows() * stride, kSentinel);
    DotKeys(format, q.ConstRows(), keys.Row(0), nullptr, num_keys, 0.125f,
            out.data(), stride);
    for (size_t i = 0; i < q.ConstRows().num_rows(); ++i) {
      for (size_t k = 0; k < num_keys; ++k) {
        const float dot =
            LaneDot(&keys.decoded[k * n], q.ConstRows().Row(i), n, IsFused());
        ASSERT_THAT(out[i * stride + k], SameBits(0.125f * dot))
            << "row " << i << ", key " << k;
      }
      ASSERT_EQ(out[i * stride + num_keys], kSentinel) << "row " << i;
    }
  }
};
INSTANTIATE_ON_EACH_TARGET(KvRowsTest);

TEST_P(KvRowsTest, DotKeysIsADotProductForEachKey) {
  for (const KvFormat format : kFormats) {
    for (const size_t n : HeadDims()) {
      for (const size_t num_keys : {0, 1, 2, 3, 4, 5, 7, 16}) {
        ExpectDotKeys(format, {1, 1}, num_keys, n);
      }
    }
  }
}

TEST_P(KvRowsTest, DotKeysOfManyHeadsAreThoseOfEach) {
  for (const KvFormat format : kFormats) {
    for (const size_t n : {1, 15, 18, 33, 64, 80}) {
      for (const GroupShape& shape : kGroupShapes) {
        for (const size_t num_keys : {1, 3, 4, 6, 16}) {
          ExpectDotKeys(format, shape, num_keys, n);
        }
      }
    }
  }
}

// What the documentation says of one number of the result.
float WeightedSum(const EncodedRows& values, const float* weights,
                  size_t num_values, size_t n, size_t j, float sum,
                  bool fused) {
  for (size_t i = 0; i < num_values; ++i) {
    const float value = values.decoded[i * n + j];
    sum = fused ? std::fma(weights[i], value, sum) : weights[i] * value + sum;
  }
  return sum;
}

TEST_P(KvRowsTest, AddWeightedValuesAddsInOrderOfPosition) {
  constexpr size_t kNumValues = 9;
  for (const KvFormat format : kFormats) {
    for (const size_t n : HeadDims()) {
      EncodedRows values(format, kNumValues, n, 15);
      const std::vector<float> weights = RandomFloats(kNumValues, 14);
      Group whole(1, 1, n, 16);
      Group pieces = whole;
      const Group start = whole;
      AddWeightedValues(format, weights.data(), kNumValues, values.Row(0),
                        nullptr, kNumValues, 0, n, whole.Rows());
      AddWeightedValues(format, weights.data(), kNumValues, values.Row(0),
                        nullptr, 4, 0, n, pieces.Rows());
      AddWeightedValues(format, weights.data() + 4, kNumValues, values.Row(4),
                        nullptr, kNumValues - 4, 0, n, pieces.Rows());
      for (size_t j = 0; j < n; ++j) {
        const float expected = WeightedSum(values, weights.data(), kNumValues,
                                           n, j, start.numbers[j], IsFused());
        ASSERT_THAT(whole.numbers[j], SameBits(expected))
            << "format " << static_cast<int>(format) << " n " << n << " " << j;
        ASSERT_THAT(pieces.numbers[j], SameBits(expected)) << n << " " << j;
      }
      EXPECT_EQ(whole.numbers[n], start.numbers[n]);
    }
  }
}

TEST_P(KvRowsTest, AddWeightedValuesOfManyHeadsAndSomeColumns) {
  constexpr size_t kNumValues = 5;
  constexpr size_t kWeightsStride = kNumValues + 2;
  for (const KvFormat format : kFormats) {
    for (const size_t n : {16, 30, 64, 72, 144}) {
      EncodedRows values(format, kNumValues, n, 15);
      for (const GroupShape& shape : kGroupShapes) {
        Group sums(shape.num_tokens, shape.group_size, n, 16);
        const Group start = sums;
        Group expected = sums;
        const size_t num_rows = sums.Rows().num_rows();
        const std::vector<float> weights =
            RandomFloats(num_rows * kWeightsStride, 14);
        // The first 16 columns, those up to the last 16, and what is left.
        size_t begin = 0;
        for (const size_t end : {size_t{16}, n - n % 16, n}) {
          AddWeightedValues(format, weights.data(), kWeightsStride,
                            values.Row(0), nullptr, kNumValues, begin, end,
                            sums.Rows());
          for (size_t i = 0; i < num_rows; ++i) {
            for (size_t j = begin; j < end; ++j) {
              expected.Rows().Row(i)[j] =
                  WeightedSum(values, &weights[i * kWeightsStride], kNumValues,
                              n, j, start.ConstRows().Row(i)[j], IsFused());
            }
          }
          begin = end;
          // The other columns, and what lies between the tokens, are as before.
          for (size_t i = 0; i < sums.numbers.size(); ++i) {
            ASSERT_THAT(sums.numbers[i], SameBits(expected.numbers[i]))
                << "format " << static_cast<int>(format) << ", "
                << shape.num_tokens << " tokens of " << shape.group_size
                << " heads of " << n << ", columns up to " << end << ", number "
                << i;
          }
        }
      }
    }
  }
}

// What is fetched ahead is a hint: results are the same.
TEST_P(KvRowsTest, RowsFetchedAheadChangeNothing) {
  constexpr size_t kNumRows = 16;
  for (const KvFormat format : kFormats) {
    for (const size_t n : {18, 64}) {
      EncodedRows rows(format, 2 * kNumRows, n, 17);
      const Group q(1, 5, n, 18);
      std::vector<float> scores(5 * kNumRows), ahead(5 * kNumRows);
      DotKeys(format, q.ConstRows(), rows.Row(0), nullptr, kNumRows, 0.5f,
              scores.data(), kNumRows);
      DotKeys(format, q.ConstRows(), rows.Row(0), rows.Row(kNumRows), kNumRows,
              0.5f, ahead.data(), kNumRows);
      EXPECT_EQ(ahead, scores);
      Group sums(1, 5, n, 19);
      Group sums_ahead = sums;
      AddWeightedValues(format, scores.data(), kNumRows, rows.Row(0), nullptr,
                        kNumRows, 0, n, sums.Rows());
      AddWeightedValues(format, scores.data(), kNumRows, rows.Row(0),
                        rows.Row(kNumRows), kNumRows, 0, n, sums_ahead.Rows());
      EXPECT_EQ(sums_ahead.numbers, sums.numbers);
    }
  }
}

TEST_P(KvRowsTest, NoValuesLeaveTheSumAlone) {
  for (const KvFormat format : kFormats) {
    std::vector<float> sum = {-0.0f, 1.0f, kSentinel};
    AddWeightedValues(format, nullptr, 0, nullptr, nullptr, 0, 0, sum.size(),
                      OneRow(sum.data(), sum.size()));
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
      const Group q(1, 1, n, 12);
      float score = 0;
      DotKeys(format, q.ConstRows(), bytes.data(), nullptr, 1, 1.0f, &score, 1);
      EXPECT_TRUE(std::isnan(score)) << n;
      Group sum(1, 1, n, 16);
      const float weight = 0.0f;  // not even a weight of zero hides it
      AddWeightedValues(format, &weight, 1, bytes.data(), nullptr, 1, 0, n,
                        sum.Rows());
      EXPECT_TRUE(std::isnan(sum.numbers[n - 1])) << n;
    }
  }
}

}  // namespace
}  // namespace lowmem
