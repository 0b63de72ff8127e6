// SPDX-License-Identifier: Apache-2.0
#include "engine/text/unicode_form.h"

#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

std::string InForm(absl::string_view text, UnicodeForm form) {
  std::string out;
  AppendInForm(text, form, out);
  return out;
}

TEST(UnicodeFormTest, FourForms) {
  const struct {
    const char* text;
    const char* nfc;
    const char* nfd;
    const char* nfkc;
    const char* nfkd;
  } rows[] = {
      {"", "", "", "", ""},
      {"plain text", "plain text", "plain text", "plain text", "plain text"},
      {"\u00e9", "\u00e9", "e\u0301", "\u00e9", "e\u0301"},
      {"e\u0301", "\u00e9", "e\u0301", "\u00e9", "e\u0301"},
      {"\u212b", "\u00c5", "A\u030a", "\u00c5", "A\u030a"},
      {"\ufb01", "\ufb01", "\ufb01", "fi", "fi"},
      {"\u00a0x", "\u00a0x", "\u00a0x", " x", " x"},
      {"\ud55c", "\ud55c", "\u1112\u1161\u11ab", "\ud55c",
       "\u1112\u1161\u11ab"},
      // The composed character is excluded from composition.
      {"\u0958", "\u0915\u093c", "\u0915\u093c", "\u0915\u093c",
       "\u0915\u093c"},
      // Marks are put in canonical order before they compose.
      {"a\u0301\u0323", "\u1ea1\u0301", "a\u0323\u0301", "\u1ea1\u0301",
       "a\u0323\u0301"},
      {"x\u00e9y e\u0301 \u4e2d!", "x\u00e9y \u00e9 \u4e2d!",
       "xe\u0301y e\u0301 \u4e2d!", "x\u00e9y \u00e9 \u4e2d!",
       "xe\u0301y e\u0301 \u4e2d!"},
      {"\u0301 at the start", "\u0301 at the start", "\u0301 at the start",
       "\u0301 at the start", "\u0301 at the start"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(InForm(row.text, UnicodeForm::kNfc), row.nfc) << row.text;
    EXPECT_EQ(InForm(row.text, UnicodeForm::kNfd), row.nfd) << row.text;
    EXPECT_EQ(InForm(row.text, UnicodeForm::kNfkc), row.nfkc) << row.text;
    EXPECT_EQ(InForm(row.text, UnicodeForm::kNfkd), row.nfkd) << row.text;
  }
}

TEST(UnicodeFormTest, AppendsToWhatIsThere) {
  std::string out = "e";
  AppendInForm("\u0301", UnicodeForm::kNfc, out);
  EXPECT_EQ(out, "e\u0301");  // not looked at again
}

// 200,000 marks in falling order of their classes: sorting by neighbours would
// take 10^10 exchanges.
TEST(UnicodeFormTest, ManyMarksAreSorted) {
  constexpr int kNumPairs = 100'000;
  std::string text = "x";
  std::string expected = "x";
  for (int i = 0; i < kNumPairs; ++i)
    text += "\u0301\u0323";  // classes 230, 220
  for (int i = 0; i < kNumPairs; ++i) expected += "\u0323";
  for (int i = 0; i < kNumPairs; ++i) expected += "\u0301";
  EXPECT_EQ(InForm(text, UnicodeForm::kNfd), expected);
}

TEST(UnicodeFormTest, LowerCaseIsByCharacter) {
  std::string out;
  AppendLowerCase("A\u00c9\u0130\u03a3\u0130I\u1e9e1", out);
  EXPECT_EQ(out, "a\u00e9i\u0307\u03c3i\u0307i\u00df1");
}

TEST(UnicodeFormTest, Categories) {
  for (const char32_t c : {U'0', U'\u0663', U'\u00bd', U'\u2163'}) {
    EXPECT_TRUE(IsNumeric(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'a', U'\u4e00', U'-'}) EXPECT_FALSE(IsNumeric(c));
  for (const char32_t c : {U'-', U'$', U'`', U'\u2026', U'\u3002'}) {
    EXPECT_TRUE(IsPunctuation(c)) << static_cast<uint32_t>(c);
  }
  for (const char32_t c : {U'a', U' ', U'\u20ac'})
    EXPECT_FALSE(IsPunctuation(c));
}

}  // namespace
}  // namespace lowmem
