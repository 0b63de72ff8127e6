// SPDX-License-Identifier: Apache-2.0
#include "storage/base/utf8.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

// The textbook encoder: the reference of the round trip.
std::string Encode(char32_t c) {
  std::string out;
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
  }
  return out + static_cast<char>(0x80 | (c & 0x3F));
}

TEST(DecodeUtf8Test, EveryCodePointExceptSurrogates) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const std::string text = Encode(c) + "tail";
    const Utf8Step step = DecodeUtf8(text);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_FALSE(step.ok) << static_cast<uint32_t>(c);
      ASSERT_EQ(step.num_bytes, 1u) << static_cast<uint32_t>(c);
    } else {
      ASSERT_TRUE(step.ok) << static_cast<uint32_t>(c);
      ASSERT_EQ(uint32_t{step.code_point}, uint32_t{c});
      ASSERT_EQ(step.num_bytes, text.size() - 4) << static_cast<uint32_t>(c);
    }
  }
}

TEST(DecodeUtf8Test, InvalidBytesAreTakenOneByOne) {
  for (const char* text :
       {"\x80",
        "\xBF"
        "a",
        "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "\xFF", "\xC3", "\xC3(",
        "\xE2\x82", "\xE2(\xAC", "\xF0\x9F\x98"}) {
    const Utf8Step step = DecodeUtf8(text);
    EXPECT_FALSE(step.ok) << text;
    EXPECT_EQ(step.num_bytes, 1u) << text;
    EXPECT_EQ(uint32_t{step.code_point}, static_cast<unsigned char>(text[0]))
        << text;
  }
}

}  // namespace
}  // namespace lowmem
