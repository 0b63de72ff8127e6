// SPDX-License-Identifier: Apache-2.0
#include "engine/text/utf8_text.h"

#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

#define FFFD "\xEF\xBF\xBD"

TEST(Utf8TextTest, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("plain ASCII of more than eight bytes"),
            std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("\u00e9\u4e2d\U0001F40B"), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8(absl::string_view("\0", 1)), std::nullopt);
  EXPECT_EQ(FindInvalidUtf8("eight by\xFFtes"), 8u);
  EXPECT_EQ(FindInvalidUtf8("ab\xC3"), 2u);            // cut off
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(FindInvalidUtf8("x\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // beyond U+10FFFF
}

// Unicode 15.0, section 3.9, tables 3-8 to 3-11.
TEST(Utf8TextTest, EachMaximalInvalidPartIsOneReplacement) {
  const struct {
    const char* name;
    std::string bytes;
    std::string text;
  } rows[] = {
      {"whole", "a\u00e9\U0001F40B", "a\u00e9\U0001F40B"},
      {"overlong", "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
       FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
      {"surrogates", "\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
       FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A"},
      {"other", "\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
       FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B"},
      {"truncated", "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41",
       FFFD FFFD FFFD FFFD "A"},
      {"end of text", "a\xF0\x9F\x90", "a" FFFD},
  };
  for (const auto& row : rows) {
    std::string text;
    EXPECT_EQ(AppendAsText(row.bytes, /*at_end=*/true, text), row.bytes.size());
    EXPECT_EQ(text, row.text) << row.name;
  }
}

TEST(Utf8TextTest, HoldsBackOnlyWhatMayBecomeACharacter) {
  const struct {
    std::string bytes;
    size_t used;
  } rows[] = {
      {"a", 1},         {"a\xC3", 1},
      {"a\xE4\xB8", 1}, {"\xF0\x9F\x90", 0},
      {"\xF0\x80", 2},  {"\xED\xA0", 2},
      {"\xC0", 1},      {"\xFF", 1},
      {"\x80", 1},      {"\xE4\xB8\x41", 3},
      {"\xF4\x90", 2},  {"\xE4\xC3", 1},
  };
  for (const auto& row : rows) {
    std::string text;
    EXPECT_EQ(AppendAsText(row.bytes, /*at_end=*/false, text), row.used)
        << ::testing::PrintToString(row.bytes);
  }
}

TEST(Utf8TextTest, WritesAndReadsBackEveryLength) {
  for (const char32_t c :
       {0x0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text = "x";
    AppendUtf8(c, text);
    EXPECT_EQ(FindInvalidUtf8(text), std::nullopt);
    EXPECT_EQ(CodePointBefore(text, text.size()), c);
  }
}

TEST(Utf8TextTest, WhiteSpaceIsThePropertyOfThatName) {
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += IsWhiteSpace(c);
  EXPECT_EQ(count, 25);
  EXPECT_TRUE(IsWhiteSpace(0x3000));
  EXPECT_FALSE(IsWhiteSpace(0x180E));  // it was, before Unicode 6.3
  EXPECT_FALSE(IsWhiteSpace(0x200B));
}

}  // namespace
}  // namespace lowmem
