// SPDX-License-Identifier: Apache-2.0
// Decoding and streaming, and what the whole pipeline promises.
#include "engine/text/tokenizer.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/text/synthetic_tokenizer.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::AddedTokenJson;
using testing::Bytes;
using ::testing::ElementsAre;
using testing::Fails;
using testing::Ids;
using testing::SyntheticTokenizer;

#define FFFD "\xEF\xBF\xBD"

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer =
        SyntheticTokenizer{
            .pieces = {"\u0120a"},
            .merges = {"\u0120 a"},
            .added_tokens = absl::StrCat(
                "[", AddedTokenJson(257, "<s>", R"(,"special":true)"), ",",
                AddedTokenJson(258, "<\uff5c>", R"(,"normalized":false)"), "]"),
            .pre_tokenizer =
                R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})"}
            .Build();
    ASSERT_THAT(tokenizer, testing::IsOk());
    tokenizer_ = *std::move(tokenizer);
  }
  // What Add gives for each id, and at last what Finish gives.
  std::vector<std::string> Stream(const std::vector<int32_t>& ids,
                                  bool skip_special = false) {
    StreamingDetokenizer detokenizer(*tokenizer_, skip_special);
    std::vector<std::string> pieces;
    for (const int32_t id : ids) {
      auto piece = detokenizer.Add(id);
      EXPECT_THAT(piece, testing::IsOk());
      pieces.push_back(piece.ok() ? *piece : "error");
    }
    pieces.push_back(detokenizer.Finish());
    return pieces;
  }

  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TokenizerTest, DecodesBytesAcrossTokens) {
  ASSERT_OK_AND_ASSIGN(const auto text,
                       tokenizer_->Decode(Bytes("\u4e2d\u00e9"), false));
  EXPECT_EQ(text, "\u4e2d\u00e9");
  ASSERT_OK_AND_ASSIGN(
      const auto broken,
      tokenizer_->Decode(std::vector<int32_t>{0xE4, 0xB8, 'a', 0xC3}, false));
  EXPECT_EQ(broken, FFFD "a" FFFD);
}

TEST_F(TokenizerTest, SpecialTokensAreShownOrSkipped) {
  const std::vector<int32_t> ids = {257, 256, 258};
  ASSERT_OK_AND_ASSIGN(const auto shown, tokenizer_->Decode(ids, false));
  EXPECT_EQ(shown, "<s> a<\uff5c>");
  ASSERT_OK_AND_ASSIGN(const auto skipped, tokenizer_->Decode(ids, true));
  EXPECT_EQ(skipped, " a<\uff5c>");
}

TEST_F(TokenizerTest, StreamsWholeCharacters) {
  EXPECT_THAT(Stream(Bytes("a\U0001F40B!")),
              ElementsAre("a", "", "", "", "\U0001F40B", "!", ""));
}

TEST_F(TokenizerTest, NothingIsHeldBackThatCannotBecomeACharacter) {
  EXPECT_THAT(Stream({0xFF, 0xC3, 'a', 0xF0, 0x80, 0xE4, 0xB8}),
              ElementsAre(FFFD, "", FFFD "a", "", FFFD FFFD, "", "", FFFD));
}

TEST_F(TokenizerTest, SkippedTokenDoesNotEndACharacter) {
  EXPECT_THAT(Stream({0xC3, 257, 0xA9}, /*skip_special=*/true),
              ElementsAre("", "", "\u00e9", ""));
  EXPECT_THAT(Stream({0xC3, 257, 0xA9}, /*skip_special=*/false),
              ElementsAre("", FFFD "<s>", FFFD, ""));
}

TEST_F(TokenizerTest, FinishStartsAnew) {
  StreamingDetokenizer detokenizer(*tokenizer_, false);
  ASSERT_OK_AND_ASSIGN(const auto first, detokenizer.Add(0xC3));
  EXPECT_EQ(first, "");
  EXPECT_EQ(detokenizer.Finish(), FFFD);
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST_F(TokenizerTest, IdsOutsideTheVocabularyAreTheCallersFault) {
  StreamingDetokenizer detokenizer(*tokenizer_, false);
  for (const int32_t id : {-1, 259, INT32_MAX, INT32_MIN}) {
    EXPECT_THAT(tokenizer_->Decode({&id, 1}, false),
                Fails(absl::StatusCode::kInvalidArgument, "expected 0 to 258"));
    EXPECT_THAT(detokenizer.Add(id), Fails(absl::StatusCode::kInvalidArgument,
                                           "not in the vocabulary"));
  }
}

TEST_F(TokenizerTest, PlainTextOfUsersHoldsNoSpecialTokens) {
  EXPECT_THAT(Ids(*tokenizer_, "<s> a<\uff5c>"), ElementsAre(257, 256, 258));
  EXPECT_THAT(Ids(*tokenizer_, "<s> a<\uff5c>", /*parse_special=*/false),
              ElementsAre('<', 's', '>', 256, 258));
}

// Repeated pieces come out of a cache; each must get its own ids all the same.
TEST_F(TokenizerTest, RepeatedPiecesGetTheSameIds) {
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string word =
        absl::StrCat(i % 7 == 0 ? " b" : " c", i % 5000, "!");
    text += word + " a";
    const std::vector<int32_t> bytes = Bytes(word);
    expected.insert(expected.end(), bytes.begin(), bytes.end());
    expected.push_back(256);
  }
  EXPECT_EQ(Ids(*tokenizer_, text), expected);
}

// A check of the text by PCRE2 at each word would take minutes here.
TEST_F(TokenizerTest, MegabyteOfWords) {
  std::string text;
  while (text.size() < (1u << 20)) text += " a\u00e9 a";
  const std::vector<int32_t> ids = Ids(*tokenizer_, text);
  ASSERT_OK_AND_ASSIGN(const auto decoded, tokenizer_->Decode(ids, false));
  EXPECT_EQ(decoded, text);
}

TEST_F(TokenizerTest, MegabyteWithoutAWordBreak) {
  for (const char* unit : {"a", " ", "\u4e2d", "!", "\u0301"}) {
    std::string text;
    while (text.size() < (1u << 20)) text += unit;
    ASSERT_OK_AND_ASSIGN(const auto decoded,
                         tokenizer_->Decode(Ids(*tokenizer_, text), false));
    EXPECT_EQ(decoded, text);
  }
}

TEST_F(TokenizerTest, CancelledEncodingEnds) {
  std::atomic<bool> cancel = false;
  Tokenizer::EncodeOptions options;
  options.cancel = &cancel;
  EXPECT_THAT(tokenizer_->Encode("a b", options), testing::IsOk());
  cancel = true;
  for (const std::string& text :
       {std::string("a b"), std::string("<s>"), std::string(1u << 20, 'a')}) {
    EXPECT_THAT(tokenizer_->Encode(text, options),
                Fails(absl::StatusCode::kCancelled, "interrupted"));
  }
}

std::string Repeated(absl::string_view unit, size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) absl::StrAppend(&text, unit);
  return text;
}

TEST_F(TokenizerTest, NoMoreIdsThanAskedFor) {
  for (const std::string& text :
       {std::string("b"), std::string("<s>"), std::string("one <s> two<s>"),
        Repeated(" a word", 100'000), std::string(100'000, 'a')}) {
    Tokenizer::EncodeOptions options;
    ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer_->Encode(text, options));
    options.max_ids = ids.size();
    ASSERT_OK_AND_ASSIGN(const auto same, tokenizer_->Encode(text, options));
    EXPECT_EQ(same, ids);
    for (const size_t max_ids : {ids.size() - 1, size_t{0}}) {
      options.max_ids = max_ids;
      EXPECT_THAT(tokenizer_->Encode(text, options),
                  Fails(absl::StatusCode::kOutOfRange, "too many tokens"));
    }
  }
}

// A text of so many tokens ends long before its end, and a word that cannot be
// so few before any work on it.
TEST_F(TokenizerTest, TooManyIdsAreKnownEarly) {
  for (const char* unit : {" a word", "a"}) {
    MemoryAccount account("text", MemoryAccount::kUnlimited, nullptr);
    Tokenizer::EncodeOptions options;
    options.account = &account;
    options.max_ids = 1000;
    EXPECT_THAT(tokenizer_->Encode(Repeated(unit, 4u << 20), options),
                Fails(absl::StatusCode::kOutOfRange, ""));
    EXPECT_LE(account.peak_bytes(), 160u << 10) << unit;
  }
}

TEST_F(TokenizerTest, WhatEncodingTakesIsCharged) {
  constexpr size_t kLength = 1u << 20;
  constexpr size_t kFixed = 160u << 10;
  const struct {
    const char* unit;
    size_t most_bytes;
  } rows[] = {
      // Ids.
      {" a word", kLength * 6 / 7 * 4 + kFixed},
      {"<s>", kLength / 3 * 4 + kFixed},
      // Ids and the room for one word.
      {"a", kLength * 24 + kFixed},
      {"\u4e2d", kLength * 24 + kFixed},
  };
  for (const auto& row : rows) {
    const std::string text = Repeated(row.unit, kLength);
    ASSERT_OK_AND_ASSIGN(const auto expected, tokenizer_->Encode(text, {}));
    MemoryAccount account("text", row.most_bytes, nullptr);
    Tokenizer::EncodeOptions options;
    options.account = &account;
    ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer_->Encode(text, options));
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(account.used_bytes(), 0u);
    MemoryAccount small("text", account.peak_bytes() - kFixed, nullptr);
    options.account = &small;
    EXPECT_THAT(tokenizer_->Encode(text, options),
                Fails(absl::StatusCode::kResourceExhausted, "text: "))
        << row.unit;
    EXPECT_EQ(small.used_bytes(), 0u);
  }
}

TEST_F(TokenizerTest, TokenBytesOfEachId) {
  EXPECT_EQ(tokenizer_->TokenBytes(0xC3), "\xC3");
  EXPECT_EQ(tokenizer_->TokenBytes(256), " a");
  EXPECT_EQ(tokenizer_->TokenBytes(258), "<\uff5c>");
  EXPECT_EQ(tokenizer_->TokenBytes(1'000'000), "");
}

}  // namespace
}  // namespace lowmem
