// SPDX-License-Identifier: Apache-2.0
// Bytes are compared with the definition in the header, written out once more
// in double and integers.
#include "quant/kv_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "quant/scalar_convert.h"
#include "tests/quant/kernels/lane_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsNan;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
constexpr size_t kMaxHeadDim = 256;

// Encoded at an odd address between bytes that must stay.
std::vector<uint8_t> Encode(KvFormat format, const std::vector<float>& row) {
  constexpr uint8_t kSentinel = 0xA5;
  const size_t num_bytes = KvRowBytes(format, row.size());
  std::vector<uint8_t> room(num_bytes + 2, kSentinel);
  EncodeKvRow(format, row.data(), row.size(), room.data() + 1);
  EXPECT_EQ(room.front(), kSentinel);
  EXPECT_EQ(room.back(), kSentinel);
  return {room.begin() + 1, room.end() - 1};
}

std::vector<float> RoundTrip(KvFormat format, const std::vector<float>& row) {
  const std::vector<uint8_t> bytes = Encode(format, row);
  std::vector<float> decoded(row.size());
  DecodeKvRow(format, bytes.data(), row.size(), decoded.data());
  return decoded;
}

// Codes and scales of finite numbers whose scale is normal or zero. Quotients
// are taken in double and rounded to float32 then: right, since double has more
// than twice the digits.
std::vector<uint8_t> Q8ByDefinition(const std::vector<float>& row) {
  std::vector<uint8_t> codes, scales;
  for (size_t i = 0; i < row.size(); i += 32) {
    const size_t end = std::min(row.size(), i + 32);
    float largest = 0;
    for (size_t k = i; k < end; ++k) {
      largest = std::max(largest, std::fabs(row[k]));
    }
    const uint16_t scale =
        F32ToBF16(static_cast<float>(double{largest} / 127.0));
    scales.push_back(static_cast<uint8_t>(scale & 0xFF));
    scales.push_back(static_cast<uint8_t>(scale >> 8));
    for (size_t k = i; k < end; ++k) {
      double code = 0;
      if (scale != 0) {
        code = static_cast<float>(double{row[k]} / double{BF16ToF32(scale)});
        code = std::nearbyint(std::min(127.0, std::max(-127.0, code)));
      }
      codes.push_back(static_cast<uint8_t>(static_cast<int8_t>(code)));
    }
  }
  codes.insert(codes.end(), scales.begin(), scales.end());
  return codes;
}

TEST(KvCodecTest, RowBytes) {
  struct Case {
    size_t head_dim;
    size_t f32, bf16, q8;
  };
  for (const Case& c :
       {Case{1, 4, 2, 3}, Case{31, 124, 62, 33}, Case{32, 128, 64, 34},
        Case{33, 132, 66, 37}, Case{64, 256, 128, 68}, Case{80, 320, 160, 86},
        Case{96, 384, 192, 102}, Case{128, 512, 256, 136},
        Case{256, 1024, 512, 272}}) {
    EXPECT_EQ(KvRowBytes(KvFormat::kF32, c.head_dim), c.f32);
    EXPECT_EQ(KvRowBytes(KvFormat::kBF16, c.head_dim), c.bf16);
    EXPECT_EQ(KvRowBytes(KvFormat::kQ8, c.head_dim), c.q8);
  }
}

TEST(KvCodecTest, F32KeepsEveryBit) {
  const std::vector<float> row = {
      0.0f, -0.0f, kSmallest, -kMax,
      kInf, -kInf, 0.1f,      std::bit_cast<float>(0x7FA12345u)};
  const std::vector<float> decoded = RoundTrip(KvFormat::kF32, row);
  EXPECT_EQ(std::memcmp(decoded.data(), row.data(), 4 * row.size()), 0);
}

TEST(KvCodecTest, BF16KeepsEveryBF16) {
  std::vector<float> row;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    row.push_back(BF16ToF32(static_cast<uint16_t>(bits)));
  }
  const std::vector<uint8_t> bytes = Encode(KvFormat::kBF16, row);
  const std::vector<float> decoded = RoundTrip(KvFormat::kBF16, row);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if (std::isnan(row[bits])) {
      EXPECT_TRUE(std::isnan(decoded[bits])) << bits;
      EXPECT_EQ(std::signbit(decoded[bits]), std::signbit(row[bits])) << bits;
    } else {
      EXPECT_EQ(LoadU16(&bytes[2 * bits]), bits);
      EXPECT_THAT(decoded[bits], SameBits(row[bits])) << bits;
    }
  }
}

TEST(KvCodecTest, BF16RoundsToNearestEven) {
  struct Case {
    uint32_t bits;
    uint16_t rounded;
  };
  for (const Case& c : {
           Case{0x3F808000u, 0x3F80u},  // half way, even below
           Case{0x3F818000u, 0x3F82u},  // half way, even above
           Case{0x3F807FFFu, 0x3F80u}, Case{0x3F808001u, 0x3F81u},
           Case{0xBF808001u, 0xBF81u},
           Case{0x00000001u, 0x0000u},  // the smallest denormal
           Case{0x80000001u, 0x8000u}, Case{0x7F7F7FFFu, 0x7F7Fu},
           Case{0x7F7FFFFFu, 0x7F80u},  // the largest number: infinite
           Case{0x7F800001u, 0x7FC0u},  // a NaN without its upper bits
       }) {
    EXPECT_EQ(
        LoadU16(Encode(KvFormat::kBF16, {std::bit_cast<float>(c.bits)}).data()),
        c.rounded)
        << std::hex << c.bits;
  }
}

TEST(KvCodecTest, Q8IsAsDefinedForEveryHeadDim) {
  for (size_t n = 1; n <= kMaxHeadDim; ++n) {
    std::vector<float> row = RandomFloats(n, static_cast<uint32_t>(n));
    EXPECT_EQ(Encode(KvFormat::kQ8, row), Q8ByDefinition(row)) << n;
    row[n / 2] = 1000.0f;  // an outlier, as keys have
    EXPECT_EQ(Encode(KvFormat::kQ8, row), Q8ByDefinition(row)) << n;
  }
}

TEST(KvCodecTest, Q8IsOffByHalfAScaleAtMost) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> row = RandomFloats(kMaxHeadDim, seed);
    const std::vector<uint8_t> bytes = Encode(KvFormat::kQ8, row);
    const std::vector<float> decoded = RoundTrip(KvFormat::kQ8, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const double scale = BF16ToF32(LoadU16(&bytes[kMaxHeadDim + i / 32 * 2]));
      // 2^-17: a quotient below 128 rounded to float32.
      ASSERT_LE(std::fabs(double{decoded[i]} - row[i]), scale * (0.5 + 0x1p-17))
          << seed << " " << i;
    }
  }
}

TEST(KvCodecTest, Q8TiesGoToEven) {
  // 127 makes the scale 1.
  EXPECT_THAT(
      RoundTrip(KvFormat::kQ8, {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f}),
      ElementsAre(127, 0, 2, 2, 0, -2, -2));
}

TEST(KvCodecTest, Q8OfZerosIsZerosWithoutSign) {
  for (const float zero : {0.0f, -0.0f}) {
    const std::vector<float> row(40, zero);
    EXPECT_THAT(Encode(KvFormat::kQ8, row), Each(0));
    EXPECT_THAT(RoundTrip(KvFormat::kQ8, row), Each(SameBits(0.0f)));
  }
  EXPECT_THAT(RoundTrip(KvFormat::kQ8, {127.0f, -0.0f}),
              ElementsAre(127.0f, SameBits(0.0f)));
}

TEST(KvCodecTest, Q8BlocksDoNotTouchEachOther) {
  std::vector<float> row(96, 1.0f);
  row[40] = 1e6f;
  const std::vector<float> decoded = RoundTrip(KvFormat::kQ8, row);
  // 1 / 127 is no bfloat16: the nearest is 0.2 % off at most.
  for (const size_t i : {0, 31, 64, 95}) EXPECT_NEAR(decoded[i], 1.0f, 2e-3f);
  for (const size_t i : {32, 39, 41, 63}) EXPECT_EQ(decoded[i], 0.0f);
  EXPECT_NEAR(decoded[40], 1e6f, 2e3f);
}

TEST(KvCodecTest, Q8OfTheLargestNumbersIsFinite) {
  for (float value = kMax; value > kMax / 2; value *= 0.999f) {
    const std::vector<float> decoded =
        RoundTrip(KvFormat::kQ8, {value, -value, 1.0f});
    ASSERT_TRUE(std::isfinite(decoded[0])) << value;
    EXPECT_NEAR(decoded[0] / value, 1.0, 0.004) << value;
    EXPECT_EQ(decoded[1], -decoded[0]);
    EXPECT_EQ(decoded[2], 0.0f);
  }
}

TEST(KvCodecTest, Q8OfTheSmallestNumbersStaysInRange) {
  // Scales around the smallest bfloat16, 2^-133, are coarse: codes are held at
  // 127, or the whole block is zero. Never a wrong sign or a larger magnitude
  // than half a scale above.
  for (float value = kSmallest; value < 1e-30f; value *= 1.37f) {
    value = std::max(value, std::nextafter(value, 1.0f));
    const std::vector<float> row = {value, -value, 0.0f};
    const std::vector<float> decoded = RoundTrip(KvFormat::kQ8, row);
    const float scale = BF16ToF32(LoadU16(&Encode(KvFormat::kQ8, row)[3]));
    if (value < 0x1p-127f) {
      EXPECT_EQ(decoded[0], 0.0f) << value;
    } else {
      EXPECT_GT(decoded[0], value / 2) << value;
    }
    EXPECT_LE(decoded[0], value + scale / 2) << value;
    EXPECT_EQ(decoded[1], -decoded[0]) << value;
    EXPECT_EQ(decoded[2], 0.0f) << value;
  }
}

TEST(KvCodecTest, Q8WithInfinityOrNaNIsNaNInItsBlockAlone) {
  for (const float bad : {kInf, -kInf, kNaN, -kNaN}) {
    for (const size_t place : {size_t{32}, size_t{47}, size_t{63}}) {
      std::vector<float> row(80, 1.0f);
      row[place] = bad;
      const std::vector<float> decoded = RoundTrip(KvFormat::kQ8, row);
      for (size_t i = 0; i < row.size(); ++i) {
        if (i / 32 == 1) {
          EXPECT_THAT(decoded[i], IsNan()) << bad << " " << i;
        } else {
          EXPECT_NEAR(decoded[i], 1.0f, 2e-3f) << bad << " " << i;
        }
      }
    }
  }
}

// Not so Q8: the largest code need not be 127, so the scale may move.
TEST(KvCodecTest, RoundingAgainChangesNothing) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> once =
        RoundTrip(KvFormat::kBF16, RandomFloats(kMaxHeadDim, seed));
    EXPECT_EQ(RoundTrip(KvFormat::kBF16, once), once);
  }
}

}  // namespace
}  // namespace lowmem
