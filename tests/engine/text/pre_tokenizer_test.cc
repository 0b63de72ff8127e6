// SPDX-License-Identifier: Apache-2.0
#include "engine/text/pre_tokenizer.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
using Pieces = std::vector<std::string>;

constexpr char kBytes[] =
    R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";

absl::StatusOr<PreTokenizer> Parse(absl::string_view json) {
  const auto spec = JsonValue::Parse(json);
  EXPECT_THAT(spec, testing::IsOk());
  return PreTokenizer::FromJson(*spec);
}

Pieces PiecesOf(const PreTokenizer& pre_tokenizer, absl::string_view text) {
  RegexScratch scratch;
  Pieces pieces;
  EXPECT_THAT(pre_tokenizer.Cut(text, scratch,
                                [&pieces](absl::string_view piece) {
                                  pieces.emplace_back(piece);
                                  return absl::OkStatus();
                                }),
              testing::IsOk());
  return pieces;
}

// The pieces that the steps (a JSON list without brackets) make, with a
// ByteLevel that does nothing behind them.
Pieces PiecesOf(absl::string_view steps, absl::string_view text) {
  auto pre_tokenizer =
      Parse(absl::StrCat(R"({"type":"Sequence","pretokenizers":[)", steps,
                         steps.empty() ? "" : ",", kBytes, "]}"));
  EXPECT_THAT(pre_tokenizer, testing::IsOk());
  return pre_tokenizer.ok() ? PiecesOf(*pre_tokenizer, text) : Pieces();
}

std::string Split(absl::string_view pattern, absl::string_view behavior,
                  bool invert = false) {
  return absl::StrCat(R"({"type":"Split","pattern":)", pattern,
                      R"(,"behavior":")", behavior, R"(","invert":)",
                      invert ? "true" : "false", "}");
}

TEST(PreTokenizerTest, Behaviors) {
  const struct {
    const char* behavior;
    Pieces pieces;
    Pieces inverted;
  } rows[] = {
      {"Removed", {"the", "final", "countdown"}, {"-", "-", "-"}},
      {"Isolated",
       {"the", "-", "final", "-", "-", "countdown"},
       {"the", "-", "final", "-", "-", "countdown"}},
      {"MergedWithPrevious",
       {"the-", "final-", "-", "countdown"},
       {"the", "-final", "-", "-countdown"}},
      {"MergedWithNext",
       {"the", "-final", "-", "-countdown"},
       {"the-", "final-", "-", "countdown"}},
      {"Contiguous",
       {"the", "-", "final", "--", "countdown"},
       {"the", "-", "final", "--", "countdown"}},
  };
  for (const auto& row : rows) {
    for (const char* pattern : {R"({"String":"-"})", R"({"Regex":"-"})"}) {
      EXPECT_EQ(PiecesOf(Split(pattern, row.behavior), "the-final--countdown"),
                row.pieces)
          << row.behavior << pattern;
      EXPECT_EQ(
          PiecesOf(Split(pattern, row.behavior, true), "the-final--countdown"),
          row.inverted)
          << row.behavior << pattern;
    }
  }
}

TEST(PreTokenizerTest, WhatLiesBetweenMatchesIsAPiece) {
  EXPECT_EQ(PiecesOf(Split(R"({"Regex":"[a-z]+"})", "Isolated"),
                     "ab\x01\x02"
                     "c"),
            (Pieces{"ab", "\x01\x02", "c"}));
}

TEST(PreTokenizerTest, EmptyPatternCutsBetweenCharacters) {
  EXPECT_EQ(PiecesOf(Split(R"({"String":""})", "Isolated"), "a\u00e9b"),
            (Pieces{"a", "\u00e9", "b"}));
  EXPECT_EQ(PiecesOf(Split(R"({"Regex":"x*"})", "Isolated"), "a\u00e9xxb"),
            (Pieces{"a", "\u00e9", "xx", "b"}));
}

TEST(PreTokenizerTest, StepsWorkOnThePiecesOfTheStepBefore) {
  const std::string steps =
      absl::StrCat(Split(R"({"Regex":"\\p{N}{1,3}"})", "Isolated"), ",",
                   Split(R"({"Regex":"^.|\\s+"})", "Isolated"));
  // "^" is the begin of a piece.
  EXPECT_EQ(PiecesOf(steps, "ab1234cd"),
            (Pieces{"a", "b", "1", "23", "4", "c", "d"}));
}

TEST(PreTokenizerTest, BuiltInKinds) {
  const struct {
    const char* steps;
    const char* text;
    Pieces pieces;
  } rows[] = {
      {"", "a b", {"a b"}},
      {"", "", {}},
      {R"({"type":"Digits","individual_digits":true})",
       "ab12\u00bdc",
       {"ab", "1", "2", "\u00bd", "c"}},
      {R"({"type":"Digits","individual_digits":false})",
       "ab12\u00bdc",
       {"ab", "12\u00bd", "c"}},
      {R"({"type":"Punctuation"})",
       "a..b\u3002",
       {"a", ".", ".", "b", "\u3002"}},
      {R"({"type":"Punctuation","behavior":"Contiguous"})",
       "a..b",
       {"a", "..", "b"}},
      {R"({"type":"WhitespaceSplit"})", " a. \u3000b\n", {"a.", "b"}},
      {R"({"type":"Whitespace"})", " a. b_1!?\n", {"a", ".", "b_1", "!?"}},
      {R"({"type":"CharDelimiterSplit","delimiter":"x"})", "axbxx", {"a", "b"}},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(PiecesOf(row.steps, row.text), row.pieces) << row.steps;
  }
}

TEST(PreTokenizerTest, Gpt2Words) {
  auto pre_tokenizer = Parse(
      R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true})");
  ASSERT_THAT(pre_tokenizer, testing::IsOk());
  EXPECT_EQ(
      PiecesOf(*pre_tokenizer, "Hello there's   1 day!\n\n"),
      (Pieces{" Hello", " there", "'s", "  ", " 1", " day", "!", "\n\n"}));
}

TEST(PreTokenizerTest, PrefixSpaceGoesBeforeEachPieceWithout) {
  auto pre_tokenizer = Parse(absl::StrCat(
      R"({"type":"Sequence","pretokenizers":[)",
      Split(R"({"Regex":"[0-9]"})", "Isolated"),
      R"(,{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]})"));
  ASSERT_THAT(pre_tokenizer, testing::IsOk());
  EXPECT_EQ(PiecesOf(*pre_tokenizer, " a1b"), (Pieces{" a", " 1", " b"}));
}

TEST(PreTokenizerTest, UnsupportedKindsAreNamed) {
  for (const char* type : {"Metaspace", "BertPreTokenizer", "UnicodeScripts"}) {
    EXPECT_THAT(Parse(absl::StrCat(R"({"type":")", type, R"("})")),
                Fails(absl::StatusCode::kUnimplemented,
                      absl::StrCat("pre_tokenizer: \"", type, "\"")));
  }
  EXPECT_THAT(Parse("null"),
              Fails(absl::StatusCode::kUnimplemented, "byte-level"));
  EXPECT_THAT(
      Parse(absl::StrCat(R"({"type":"Sequence","pretokenizers":[)", kBytes,
                         R"(,{"type":"Digits","individual_digits":true}]})")),
      Fails(absl::StatusCode::kUnimplemented, "\"Digits\" behind ByteLevel"));
}

TEST(PreTokenizerTest, StepsAreBounded) {
  const auto with_steps = [](int num_steps) {
    std::string steps;
    for (int i = 0; i < num_steps; ++i) {
      absl::StrAppend(&steps, R"({"type":"Digits","individual_digits":true},)");
    }
    return absl::StrCat(R"({"type":"Sequence","pretokenizers":[)", steps,
                        kBytes, "]}");
  };
  auto most = Parse(with_steps(64));
  ASSERT_THAT(most, testing::IsOk());
  EXPECT_EQ(PiecesOf(*most, "a12"), (Pieces{"a", "1", "2"}));
  EXPECT_THAT(Parse(with_steps(65)),
              Fails(absl::StatusCode::kUnimplemented, "more than 64 steps"));
}

TEST(PreTokenizerTest, DamageIsRefused) {
  for (const std::string& spec :
       {std::string("{}"), std::string(R"({"type":"Sequence"})"),
        std::string(R"({"type":"Digits"})"), std::string(R"({"type":"Split"})"),
        Split(R"({"String":"a"})", "Sideways"), Split("[]", "Isolated"),
        Split(R"({"Regex":"["})", "Isolated"),
        Split(R"({"Regex":7})", "Isolated"),
        std::string(R"({"type":"ByteLevel"})"),
        std::string(R"({"type":"ByteLevel","add_prefix_space":"no"})")}) {
    EXPECT_THAT(Parse(spec),
                Fails(absl::StatusCode::kDataLoss, "pre_tokenizer: "))
        << spec;
  }
}

}  // namespace
}  // namespace lowmem
