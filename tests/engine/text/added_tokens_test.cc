// SPDX-License-Identifier: Apache-2.0
#include "engine/text/added_tokens.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/base/limits.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::IsOk;
using Pass = AddedTokens::Pass;

constexpr char kNoNormalizer[] = "null";

auto AppendTo(std::vector<TokenOrText>& parts) {
  return [&parts](const TokenOrText& part) {
    parts.push_back(part);
    return absl::OkStatus();
  };
}

class AddedTokensTest : public ::testing::Test {
 protected:
  void Add(AddedToken token) {
    ASSERT_THAT(tokens_.Add(std::move(token)), IsOk());
  }
  void Finish(absl::string_view normalizer_json = kNoNormalizer) {
    auto normalizer = Normalizer::FromJson(*JsonValue::Parse(normalizer_json));
    ASSERT_THAT(normalizer, IsOk());
    ASSERT_THAT(tokens_.Finish(*normalizer), IsOk());
  }
  // Tokens as [content], text between as it is, parts joined by "|".
  std::string Split(absl::string_view text, Pass pass = Pass::kRaw,
                    bool parse_special = true) {
    std::vector<TokenOrText> parts;
    EXPECT_THAT(
        tokens_.Split(text, pass, parse_special, scratch_, AppendTo(parts)),
        IsOk());
    std::string shown;
    for (const TokenOrText& part : parts) {
      if (!shown.empty()) shown += "|";
      const absl::string_view bytes =
          text.substr(part.range.begin, part.range.end - part.range.begin);
      absl::StrAppend(&shown,
                      part.id.has_value() ? absl::StrCat(*part.id, "=") : "",
                      bytes);
    }
    return shown;
  }

  AddedTokens tokens_;
  RegexScratch scratch_;
};

TEST_F(AddedTokensTest, LeftmostThenLongest) {
  Add({.content = "ab", .id = 1});
  Add({.content = "abc", .id = 2});
  Add({.content = "bcd", .id = 3});
  Add({.content = "abcde", .id = 4});
  Finish();
  EXPECT_EQ(Split(""), "");
  EXPECT_EQ(Split("xyz"), "xyz");
  EXPECT_EQ(Split("ab"), "1=ab");
  EXPECT_EQ(Split("xabcdx"), "x|2=abc|dx");
  EXPECT_EQ(Split("abcde"), "4=abcde");
  EXPECT_EQ(Split("bcdabab"), "3=bcd|1=ab|1=ab");
  EXPECT_EQ(Split("abcd"), "2=abc|d");
}

TEST_F(AddedTokensTest, MatchesTextOfAnyBytes) {
  Add({.content = "<\uff5cUser\uff5c>", .id = 1});
  Add({.content = std::string("\0", 1), .id = 2});
  Finish();
  EXPECT_EQ(Split("a<\uff5cUser\uff5c><|User|>"),
            "a|1=<\uff5cUser\uff5c>|<|User|>");
  EXPECT_EQ(Split(absl::string_view("a\0b", 3)),
            absl::StrCat("a|2=", absl::string_view("\0", 1), "|b"));
}

TEST_F(AddedTokensTest, PlainTextModeKeepsSpecialTokensAsText) {
  Add({.content = "<s>", .id = 1, .special = true});
  Add({.content = "<t>", .id = 2});
  Add({.content = "s>", .id = 3});
  Finish();
  EXPECT_EQ(Split("<s><t>"), "1=<s>|2=<t>");
  // What the special token's text holds is not looked for either.
  EXPECT_EQ(Split("<s><t>s>", Pass::kRaw, /*parse_special=*/false),
            "<s>|2=<t>|3=s>");
}

TEST_F(AddedTokensTest, LstripAndRstripTakeWhiteSpace) {
  Add({.content = "<l>", .id = 1, .lstrip = true});
  Add({.content = "<r>", .id = 2, .rstrip = true});
  Add({.content = "<b>", .id = 3, .lstrip = true, .rstrip = true});
  Finish();
  EXPECT_EQ(Split("a \u3000<l> b"), "a|1= \u3000<l>| b");
  EXPECT_EQ(Split("a <r> \n\u00a0b"), "a |2=<r> \n\u00a0|b");
  EXPECT_EQ(Split(" <b> "), "3= <b> ");
  // Space that the token before has taken is not taken again.
  EXPECT_EQ(Split("<r>  <l>"), "2=<r>  |1=<l>");
}

TEST_F(AddedTokensTest, WhiteSpaceTokensWithinWhatWasStripped) {
  Add({.content = "<r>", .id = 1, .rstrip = true});
  Add({.content = " ", .id = 2});
  Finish();
  // As the reference has it: the search goes on behind the token itself.
  EXPECT_EQ(Split("<r>  y"), "1=<r>  |2= |2= |y");
}

TEST_F(AddedTokensTest, TokenWhoseTextIsTakenWholeVanishes) {
  Add({.content = "\n", .id = 1, .lstrip = true, .rstrip = true});
  Finish();
  EXPECT_EQ(Split("a\n\n\nb"), "a|1=\n\n\n|b");
}

TEST_F(AddedTokensTest, RunsOfStrippingTokensAreLinear) {
  Add({.content = "\n", .id = 1, .rstrip = true});
  Finish();
  std::vector<TokenOrText> parts;
  // Looking for the end of the run at each line end would take 10^12 steps.
  const std::string text(1u << 20, '\n');
  ASSERT_THAT(tokens_.Split(text, Pass::kRaw, true, scratch_, AppendTo(parts)),
              IsOk());
  EXPECT_EQ(parts.size(), text.size());
}

TEST_F(AddedTokensTest, CancelledSearchEnds) {
  Add({.content = "<s>", .id = 1});
  Finish();
  const std::atomic<bool> cancel = true;
  RegexScratch scratch(&cancel);
  std::vector<TokenOrText> parts;
  EXPECT_THAT(tokens_.Split("abc", Pass::kRaw, true, scratch, AppendTo(parts)),
              Fails(absl::StatusCode::kCancelled, "interrupted"));
}

TEST_F(AddedTokensTest, SingleWordStandsAlone) {
  Add({.content = "ab", .id = 1, .single_word = true});
  Add({.content = "b", .id = 2});
  Finish();
  EXPECT_EQ(Split("ab"), "1=ab");
  EXPECT_EQ(Split("-ab."), "-|1=ab|.");
  EXPECT_EQ(Split("ab abc"), "1=ab| abc");
  // A match that is ruled out hides the shorter one within it.
  EXPECT_EQ(Split("xab b"), "xab |2=b");
  for (const char* word : {"\u00e9", "_", "1", "\u0301", "\u200d", "\u4e2d"}) {
    EXPECT_EQ(Split(absl::StrCat(word, "ab")), absl::StrCat(word, "ab"))
        << word;
    EXPECT_EQ(Split(absl::StrCat("ab", word)), absl::StrCat("ab", word))
        << word;
  }
  for (const char* other : {" ", "\u00a0", "\u2026", "\U0001F40B"}) {
    EXPECT_EQ(Split(absl::StrCat(other, "ab")), absl::StrCat(other, "|1=ab"))
        << other;
  }
}

TEST_F(AddedTokensTest, NormalizedTokensAreSoughtInTheSecondPass) {
  Add({.content = "<A>", .id = 1, .normalized = true});
  Add({.content = "<B>", .id = 2});
  Finish(R"({"type":"Lowercase"})");
  EXPECT_EQ(Split("<A><a><B>"), "<A><a>|2=<B>");
  EXPECT_EQ(Split("<A><a><B>", Pass::kNormalized), "<A>|1=<a>|<B>");
  EXPECT_EQ(tokens_.DecodedText(*tokens_.Find("<A>")), "<a>");
  EXPECT_EQ(tokens_.DecodedText(*tokens_.Find("<B>")), "<B>");
}

TEST_F(AddedTokensTest, OfEqualNormalFormsTheSpecialTokenCounts) {
  Add({.content = "<A>", .id = 1, .normalized = true});
  Add({.content = "<a>", .id = 2, .normalized = true, .special = true});
  Finish(R"({"type":"Lowercase"})");
  EXPECT_EQ(Split("<a>", Pass::kNormalized), "2=<a>");
}

TEST_F(AddedTokensTest, FindsByContentAndId) {
  Add({.content = "<x>", .id = 300, .special = true});
  Finish();
  EXPECT_EQ(tokens_.Find("<x>")->id, 300);
  EXPECT_TRUE(tokens_.FindById(300)->special);
  EXPECT_EQ(tokens_.Find("<y>"), nullptr);
  EXPECT_EQ(tokens_.FindById(301), nullptr);
}

TEST_F(AddedTokensTest, LaterEntryOfTheSameTokenReplacesItsFlags) {
  Add({.content = "<x>", .id = 1});
  Add({.content = "<x>", .id = 1, .special = true});
  Finish();
  EXPECT_TRUE(tokens_.FindById(1)->special);
  EXPECT_EQ(Split("<x>", Pass::kRaw, false), "<x>");
}

TEST_F(AddedTokensTest, ContradictionsAreRefused) {
  Add({.content = "<x>", .id = 1});
  EXPECT_THAT(tokens_.Add({.content = "<x>", .id = 2}),
              Fails(absl::StatusCode::kDataLoss, "has two ids"));
  EXPECT_THAT(tokens_.Add({.content = "<y>", .id = 1}),
              Fails(absl::StatusCode::kDataLoss, "id 1 stands for two"));
  EXPECT_THAT(tokens_.Add({.content = std::string(5000, 'x'), .id = 3}),
              Fails(absl::StatusCode::kDataLoss, "too long"));
}

TEST_F(AddedTokensTest, TooManyAreRefused) {
  for (uint64_t i = 0; i < limits::kNumAddedTokens; ++i) {
    Add({.content = absl::StrCat("<", i, ">"), .id = static_cast<int32_t>(i)});
  }
  EXPECT_THAT(tokens_.Add({.content = "more", .id = 1 << 20}),
              Fails(absl::StatusCode::kDataLoss, "too many added tokens"));
}

TEST_F(AddedTokensTest, TokenOfWhichNothingIsLeftIsRefused) {
  Add({.content = " ", .id = 1, .normalized = true});
  auto normalizer = Normalizer::FromJson(*JsonValue::Parse(
      R"({"type":"Strip","strip_left":true,"strip_right":true})"));
  ASSERT_THAT(normalizer, IsOk());
  EXPECT_THAT(tokens_.Finish(*normalizer),
              Fails(absl::StatusCode::kUnimplemented, "nothing is left"));
}

}  // namespace
}  // namespace lowmem
