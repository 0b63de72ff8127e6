// SPDX-License-Identifier: Apache-2.0
#include "engine/text/regex_syntax.h"

#include <atomic>
#include <string>

#include "engine/text/regex.h"
#include "gtest/gtest.h"
#include "storage/base/limits.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::IsOk;

TEST(RegexSyntaxTest, SaysTheSameToPcre2) {
  const struct {
    const char* oniguruma;
    const char* pcre2;
  } rows[] = {
      {R"( ?[^\s\p{L}\p{N}]+[\r\n]*)",
       R"( ?[^\p{White_Space}\p{L}\p{N}]+[\r\n]*)"},
      {R"(\s+(?!\S))", R"(\p{White_Space}+(?!\P{White_Space}))"},
      {R"((?i:'s|'t))", R"((?i:'s|'t))"},
      {R"(\d\D)", R"(\p{Nd}\P{Nd})"},
      {R"(\p{N}{1,3})", R"(\p{N}{1,3})"},
      {R"(\u4e00\x{9fa5}\x41)", R"(\x{4e00}\x{9fa5}\x{41})"},
      {R"([]a])", R"([\]a])"},
      {R"([^]a])", R"([^\]a])"},
      {R"(a{x}{)", R"(a{x}{)"},
      {R"(\v\/)", R"(\x0b\/)"},
  };
  for (const auto& row : rows) {
    ASSERT_OK_AND_ASSIGN(const std::string translated,
                         TranslateOniguruma(row.oniguruma));
    EXPECT_EQ(translated, row.pcre2);
    EXPECT_THAT(Regex::Compile(translated), IsOk()) << translated;
  }
}

TEST(RegexSyntaxTest, WhatPcre2ReadsDifferentlyIsRefusedByName) {
  const struct {
    const char* pattern;
    const char* named;
  } rows[] = {
      {"(*LIMIT_MATCH=4000000000)a", "(*"},
      {"(?R)", "(?R)"},
      {"(?{code})", "(?{c"},
      {"(?C1)a", "(?C1"},
      {"(?m)a", "(?m)"},
      {"(?<name>a)", "(?<n"},
      {R"(\K)", R"(\K)"},
      {R"(\C)", R"(\C)"},
      {R"(\Qa\E)", R"(\Q)"},
      {R"(\h)", R"(\h)"},
      {R"((a)\1)", R"(\1)"},
      {R"(\xff)", R"(\xff)"},
      {R"(\u12)", R"(\u12)"},
      {"[a[b]]", "[b"},
      {"[a-z&&[^b]]", "&&"},
      {R"([\W])", R"(\W)"},
      {"a{1,3}+", "{1,3}+"},
      {"a{2}?", "{2}?"},
      {"a{,3}", "{,3}"},
      {"a\\", "\\"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(TranslateOniguruma(row.pattern),
                Fails(absl::StatusCode::kUnimplemented, row.named))
        << row.pattern;
  }
}

TEST(RegexTest, MalformedPatternIsDataLoss) {
  for (const char* pattern : {"(", "a**b(", "[a", "\\p{Nonsense}", "a)"}) {
    EXPECT_THAT(Regex::Compile(pattern),
                Fails(absl::StatusCode::kDataLoss, "pattern"))
        << pattern;
  }
}

TEST(RegexTest, TooLongPatternIsRefused) {
  EXPECT_THAT(Regex::Compile(std::string(limits::kRegexBytes + 1, 'a')),
              Fails(absl::StatusCode::kDataLoss, "too long"));
}

TEST(RegexTest, DeepNestingIsRefused) {
  const std::string pattern = std::string(1000, '(') + std::string(1000, ')');
  EXPECT_THAT(Regex::Compile(pattern),
              Fails(absl::StatusCode::kUnimplemented, "nest"));
}

// Running out of steps must never look like "no match".
TEST(RegexTest, CatastrophicPatternIsAnError) {
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile("(a+)+$"));
  RegexScratch scratch;
  EXPECT_THAT(regex.Find(std::string(64, 'a') + "b", 0, scratch),
              Fails(absl::StatusCode::kUnimplemented, "too expensive"));
}

// What lies ahead is handed to PCRE2 bit by bit; nothing found may differ from
// what it finds in all of it.
TEST(RegexTest, LookingAheadSeesTheWholeText) {
  const struct {
    const char* pattern;
    const char* unit;  // repeated
    const char* last;
    size_t chars_behind;  // between the match's end and the text's
  } rows[] = {
      {"a+(?!a)", "a", "b", 1},
      {"a+$", "a", "", 0},
      {"a+?$", "a", "", 0},
      {"(?=a*b)a+", "a", "b", 1},
      {"a*b|a", "a", "b", 0},
      {R"(a+\z|a{3})", "a", "", 0},
      {R"(a+\b)", "a", "", 0},
      {R"(\s+(?!\S)|\s+)", " ", "x", 2},
      {R"((?:x\n)+^)", "x\n", "y", 1},
      {R"(^(?:x\n)+$)", "x\n", "", 0},
      {"(?:\u4e2d)+!", "\u4e2d", "!", 0},
  };
  for (const auto& row : rows) {
    ASSERT_OK_AND_ASSIGN(const std::string translated,
                         TranslateOniguruma(row.pattern));
    ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile(translated));
    for (const int count : {3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256,
                            257, 1023, 1024, 1025, 50'000}) {
      std::string text;
      for (int i = 0; i < count; ++i) text += row.unit;
      text += row.last;
      RegexScratch scratch;
      ASSERT_OK_AND_ASSIGN(const auto match, regex.Find(text, 0, scratch));
      ASSERT_TRUE(match.has_value()) << row.pattern << count;
      EXPECT_EQ(match->begin, 0u) << row.pattern << count;
      EXPECT_EQ(match->end, text.size() - row.chars_behind)
          << row.pattern << count;
    }
  }
}

TEST(RegexTest, LineBeginsAreNotAtTheEndOfAWindow) {
  ASSERT_OK_AND_ASSIGN(const std::string translated,
                       TranslateOniguruma(R"(x\n^|x|y)"));
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile(translated));
  for (size_t before = 0; before < 300; ++before) {
    const std::string text = std::string(before, ' ') + "x\ny";
    RegexScratch scratch;
    ASSERT_OK_AND_ASSIGN(const auto match, regex.Find(text, 0, scratch));
    ASSERT_TRUE(match.has_value());
    EXPECT_EQ(match->end, before + 2);
    // At the very end of a text no line begins.
    ASSERT_OK_AND_ASSIGN(const auto last,
                         regex.Find(text.substr(0, before + 2), 0, scratch));
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->end, before + 1);
  }
}

TEST(RegexTest, WorkOfAllMatchesIsBounded) {
  for (const char* pattern :
       {R"([\x{0}-\x{10ffff}]*?zz|a)", "(?=a*b)a|a", "(?:a|a){0,12}b|a"}) {
    ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile(pattern));
    const std::string text(200'000, 'a');
    RegexScratch scratch;
    scratch.Allow(text.size());
    absl::Status status;
    // Without the bound the last matches would be as dear as the first.
    for (size_t pos = 0; pos < text.size() && status.ok(); ++pos) {
      status = regex.Find(text, pos, scratch).status();
    }
    EXPECT_THAT(status,
                Fails(absl::StatusCode::kUnimplemented, "too expensive"))
        << pattern;
  }
}

TEST(RegexTest, CancelledMatchingEnds) {
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile("a"));
  std::atomic<bool> cancel = false;
  RegexScratch scratch(&cancel);
  EXPECT_THAT(regex.Find("a", 0, scratch), testing::IsOk());
  cancel = true;
  EXPECT_THAT(regex.Find("a", 0, scratch),
              Fails(absl::StatusCode::kCancelled, "interrupted"));
}

TEST(RegexTest, LongRunsDoNotRecurse) {
  ASSERT_OK_AND_ASSIGN(
      const Regex regex,
      Regex::Compile(R"(\p{White_Space}+(?!\P{White_Space})|\p{L}+)"));
  RegexScratch scratch;
  const std::string spaces = std::string(1u << 20, ' ') + "x";
  ASSERT_OK_AND_ASSIGN(const auto match, regex.Find(spaces, 0, scratch));
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->end, (1u << 20) - 1);
  const std::string letters(1u << 20, 'a');
  ASSERT_OK_AND_ASSIGN(const auto word, regex.Find(letters, 0, scratch));
  ASSERT_TRUE(word.has_value());
  EXPECT_EQ(word->end, letters.size());
}

TEST(RegexTest, MongolianVowelSeparatorIsNoSpace) {
  ASSERT_OK_AND_ASSIGN(const std::string translated,
                       TranslateOniguruma(R"(\s)"));
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile(translated));
  RegexScratch scratch;
  ASSERT_OK_AND_ASSIGN(const auto separator, regex.Find("\u180e", 0, scratch));
  EXPECT_FALSE(separator.has_value());
  ASSERT_OK_AND_ASSIGN(const auto space, regex.Find("\u3000", 0, scratch));
  EXPECT_TRUE(space.has_value());
}

TEST(RegexTest, EmptyTextHasNoDataAndMatchesAnEmptyPattern) {
  ASSERT_OK_AND_ASSIGN(const Regex regex, Regex::Compile("a*"));
  RegexScratch scratch;
  ASSERT_OK_AND_ASSIGN(const auto match,
                       regex.Find(absl::string_view(), 0, scratch));
  ASSERT_TRUE(match.has_value());
  EXPECT_TRUE(match->empty());
}

}  // namespace
}  // namespace lowmem
