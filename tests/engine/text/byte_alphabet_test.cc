// SPDX-License-Identifier: Apache-2.0
#include "engine/text/byte_alphabet.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

TEST(ByteAlphabetTest, IsOneToOne) {
  std::set<char32_t> chars;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = CharOfByte(static_cast<uint8_t>(byte));
    EXPECT_EQ(ByteOfChar(c), byte);
    chars.insert(c);
  }
  EXPECT_EQ(chars.size(), 256u);
  int known = 0;
  for (char32_t c = 0; c < 0x1000; ++c) known += ByteOfChar(c).has_value();
  EXPECT_EQ(known, 256);
}

TEST(ByteAlphabetTest, SpellsAsGpt2Does) {
  std::string text;
  AppendInAlphabet(absl::string_view("a \n\0\x7F\xA0\xAD\u00e9", 9), text);
  EXPECT_EQ(text, "a\u0120\u010A\u0100\u0121\u0142\u0143\u00C3\u00A9");
  std::string bytes = "kept:";
  AppendBytesOf(text, bytes);
  EXPECT_EQ(bytes, std::string("kept:a \n\0\x7F\xA0\xAD\u00e9", 14));
}

TEST(ByteAlphabetTest, TextOutsideTheAlphabetIsItself) {
  std::string bytes;
  AppendBytesOf("<\uff5cUser\uff5c>", bytes);
  EXPECT_EQ(bytes, "<\uff5cUser\uff5c>");
  bytes.clear();
  AppendBytesOf("a b", bytes);  // a space is not in it
  EXPECT_EQ(bytes, "a b");
}

}  // namespace
}  // namespace lowmem
