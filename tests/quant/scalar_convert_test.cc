// SPDX-License-Identifier: Apache-2.0
#include "quant/scalar_convert.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "quant/decode.h"

namespace lowmem {
namespace {

// The value of a binary16 number by its definition, through libm.
float ReferenceF16(uint32_t half) {
  const int exponent = static_cast<int>((half >> 10) & 31);
  const int mantissa = static_cast<int>(half & 1023);
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) return sign * std::numeric_limits<float>::infinity();
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

std::vector<uint16_t> AllWords() {
  std::vector<uint16_t> words(65536);
  for (uint32_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<uint16_t>(i);
  return words;
}

std::vector<float> DecodeAllWords(DType dtype) {
  const std::vector<uint16_t> words = AllWords();
  std::vector<float> values(words.size());
  DecodeRow(dtype, reinterpret_cast<const uint8_t*>(words.data()), words.size(),
            values.data());
  return values;
}

TEST(ScalarConvertTest, EveryF16HasItsIeeeValue) {
  const std::vector<float> row = DecodeAllWords(DType::kF16);
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(row[i]);
    EXPECT_EQ(bits,
              std::bit_cast<uint32_t>(F16ToF32(static_cast<uint16_t>(i))));
    if ((i & 0x7C00) == 0x7C00 && (i & 0x3FF) != 0) {  // NaN: sign and payload
      EXPECT_EQ(bits, ((i & 0x8000) << 16) | 0x7F800000 | ((i & 0x3FF) << 13));
    } else {
      EXPECT_EQ(bits, std::bit_cast<uint32_t>(ReferenceF16(i))) << i;
    }
  }
}

TEST(ScalarConvertTest, EveryBF16IsTheUpperHalfOfItsFloat) {
  const std::vector<float> row = DecodeAllWords(DType::kBF16);
  for (uint32_t i = 0; i < 65536; ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(row[i]), i << 16);
  }
}

TEST(ScalarConvertTest, EveryBF16SurvivesTheWayBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const float value = BF16ToF32(static_cast<uint16_t>(i));
    const uint16_t back = F32ToBF16(value);
    // A signalling NaN becomes quiet, nothing else changes.
    EXPECT_EQ(back, std::isnan(value) ? (i | 0x0040) : i);
  }
}

TEST(ScalarConvertTest, BF16RoundsToNearestAndTiesToEven) {
  const struct {
    const char* name;
    uint32_t bits;
    uint16_t rounded;
  } kCases[] = {
      {"below the tie", 0x3F807FFF, 0x3F80},
      {"tie at an even value stays", 0x3F808000, 0x3F80},
      {"above the tie", 0x3F808001, 0x3F81},
      {"tie at an odd value goes up", 0x3F818000, 0x3F82},
      {"carries into the exponent", 0x3FFFFFFF, 0x4000},
      {"negative is symmetrical", 0xBF818000, 0xBF82},
      {"largest float overflows to infinity", 0x7F7FFFFF, 0x7F80},
      {"smallest denormal becomes zero", 0x00000001, 0x0000},
      {"minus zero keeps its sign", 0x80000000, 0x8000},
      {"infinity", 0x7F800000, 0x7F80},
      {"NaN with only low payload bits stays NaN", 0x7F800001, 0x7FC0},
      {"NaN of all ones does not wrap", 0xFFFFFFFF, 0xFFFF},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(F32ToBF16(std::bit_cast<float>(c.bits)), c.rounded) << c.name;
  }
}

TEST(ScalarConvertTest, WordsAreReadLittleEndianAtAnyAddress) {
  const uint8_t bytes[] = {0xFF, 0x01, 0x02, 0x03, 0x04};
  EXPECT_EQ(LoadU16(bytes + 1), 0x0201);
  EXPECT_EQ(LoadU32(bytes + 1), 0x04030201u);
}

}  // namespace
}  // namespace lowmem
