// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer_json.h"

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
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
using testing::IsOk;
using testing::StringStream;
using testing::SyntheticTokenizer;

absl::StatusOr<std::unique_ptr<Tokenizer>> BuildFrom(const std::string& json) {
  StringStream stream(json);
  auto parts = ReadTokenizerJson(stream);
  if (!parts.ok()) return parts.status();
  return BuildTokenizer(*std::move(parts));
}

TEST(TokenizerJsonTest, OrderOfMembersIsFree) {
  // The model before and behind the rest, merges before and behind the
  // vocabulary.
  const char* steps =
      R"("decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false},"added_tokens":[{"id":3,"content":"<x>","special":true}])";
  const char* vocab = R"("vocab":{"ab":2,"a":0,"b":1})";
  const char* merges = R"("merges":["a b"])";
  for (const std::string& json :
       {absl::StrCat("{", steps, R"(,"model":{"type":"BPE",)", vocab, ",",
                     merges, "}}"),
        absl::StrCat(R"({"model":{)", merges, ",", vocab, R"(,"type":"BPE"},)",
                     steps, "}"),
        // Without a type.
        absl::StrCat(R"({"model":{)", vocab, ",", merges, "},", steps, "}")}) {
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, BuildFrom(json));
    EXPECT_THAT(Ids(*tokenizer, "ab<x>a"), ElementsAre(2, 3, 0)) << json;
    EXPECT_EQ(tokenizer->vocab_size(), 4u);
    EXPECT_TRUE(tokenizer->IsSpecial(3));
    EXPECT_FALSE(tokenizer->IsSpecial(2));
    EXPECT_EQ(tokenizer->FindToken("<x>"), 3);
    EXPECT_EQ(tokenizer->FindToken("ab"), 2);
    EXPECT_EQ(tokenizer->FindToken("zz"), std::nullopt);
  }
}

TEST(TokenizerJsonTest, MergesAsPairs) {
  const std::string json = absl::StrReplaceAll(
      SyntheticTokenizer{.pieces = {"ab", "abc"}, .merges = {"a b", "ab c"}}
          .Json(),
      {{R"("a b")", R"(["a","b"])"}, {R"("ab c")", R"(["ab","c"])"}});
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, BuildFrom(json));
  EXPECT_THAT(Ids(*tokenizer, "abc"), ElementsAre(257));
}

TEST(TokenizerJsonTest, VersionLineAmongMergesIsPassedOver) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      (SyntheticTokenizer{.pieces = {"ab"}, .merges = {"#version: 0.2", "a b"}}
           .Build()));
  EXPECT_THAT(Ids(*tokenizer, "ab"), ElementsAre(256));
}

TEST(TokenizerJsonTest, UnknownMembersArePassedOver) {
  std::string json = SyntheticTokenizer{}.Json();
  json.insert(
      1, R"("truncation":{"max_length":5,"a":[[{}]]},"padding":[1,"x",null],)");
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, BuildFrom(json));
  EXPECT_EQ(Ids(*tokenizer, "abcdefgh"), Bytes("abcdefgh"));
}

TEST(TokenizerJsonTest, AddedTokenMayBeAPiece) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      (SyntheticTokenizer{
          .pieces = {"<x>"},
          .added_tokens = absl::StrCat("[", AddedTokenJson(256, "<x>"), ",",
                                       AddedTokenJson(257, "<y>"), ",",
                                       AddedTokenJson(999, ""), "]")}
           .Build()));
  EXPECT_THAT(Ids(*tokenizer, "<x><y>"), ElementsAre(256, 257));
  EXPECT_EQ(tokenizer->vocab_size(), 258u);
}

TEST(TokenizerJsonTest, PostProcessorGoesAroundEveryText) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      (SyntheticTokenizer{
          .post_processor =
              R"({"type":"BertProcessing","cls":["<",60],"sep":[">",62]})"}
           .Build()));
  ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer->Encode("a", {}));
  EXPECT_THAT(ids, ElementsAre(60, 'a', 62));
  EXPECT_EQ(tokenizer->bos_id(), 60);
  ASSERT_OK_AND_ASSIGN(const auto empty, tokenizer->Encode("", {}));
  EXPECT_THAT(empty, ElementsAre(60, 62));
}

TEST(TokenizerJsonTest, UnsupportedIsNamed) {
  const struct {
    const char* named;
    SyntheticTokenizer spec;
  } rows[] = {
      {"byte_fallback", {.model_settings = R"(,"byte_fallback":true)"}},
      {"dropout", {.model_settings = R"(,"dropout":0.1)"}},
      {"end_of_word_suffix",
       {.model_settings = R"(,"end_of_word_suffix":"</w>")"}},
      {"continuing_subword_prefix",
       {.model_settings = R"(,"continuing_subword_prefix":"##")"}},
      {"normalizer: \"Nmt\"", {.normalizer = R"({"type":"Nmt"})"}},
      {"byte-level", {.pre_tokenizer = "null"}},
      {"decoder: \"WordPiece\"", {.decoder = R"({"type":"WordPiece"})"}},
      {"decoder", {.decoder = "null"}},
      {"post_processor: \"Other\"", {.post_processor = R"({"type":"Other"})"}},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(row.spec.Build(),
                Fails(absl::StatusCode::kUnimplemented, row.named));
  }
  for (const char* type : {"WordPiece", "Unigram", "WordLevel"}) {
    EXPECT_THAT(BuildFrom(absl::StrCat(R"({"model":{"type":")", type,
                                       R"(","vocab":[["a",-1.5]]}})")),
                Fails(absl::StatusCode::kUnimplemented, type));
  }
}

TEST(TokenizerJsonTest, SettingsThatChangeNothingAreAccepted) {
  EXPECT_THAT(
      (SyntheticTokenizer{
          .decoder =
              R"({"type":"Sequence","decoders":[{"type":"ByteLevel"},{"type":"Fuse"}]})",
          .model_settings =
              R"(,"dropout":null,"continuing_subword_prefix":"","end_of_word_suffix":null,"byte_fallback":false,"unk_token":"absent")"}
           .Build()),
      IsOk());
}

struct Damage {
  const char* name;
  std::string json;
  std::string part;  // of the message
};

std::vector<Damage> Damages() {
  const auto model = [](const std::string& members) {
    return absl::StrCat(R"({"model":{"type":"BPE",)", members, "}}");
  };
  const auto with = [](SyntheticTokenizer spec) { return spec.Json(); };
  std::string too_many_values = "[0";
  for (int i = 0; i < 11'000; ++i) too_many_values += ",0";
  too_many_values += "]";
  return {
      {"Empty", "", "malformed"},
      {"NoObject", "[]", "document"},
      {"JustNull", "null", "document"},
      {"NoModel", "{}", "model.vocab: is missing"},
      {"ModelIsNull", R"({"model":null})", "model.vocab: is missing"},
      {"ModelIsAList", R"({"model":[]})", "model: is of another kind"},
      {"ModelIsText", R"({"model":"BPE"})", "model: is of another kind"},
      {"Truncated", R"({"model":{"vocab":{"a":0)", "malformed"},
      {"TextBehind", absl::StrCat(SyntheticTokenizer{}.Json(), "x"),
       "malformed"},
      {"NoVocabulary", model(R"("merges":[])"), "model.vocab: is missing"},
      {"VocabularyIsAList", model(R"("vocab":[["a",0]],"merges":[])"),
       "model.vocab: is of another kind"},
      {"VocabularyIsText", model(R"("vocab":"a")"), "model.vocab"},
      {"NegativeId", model(R"("vocab":{"a":-1})"), "\"a\": id is -1"},
      {"FractionalId", model(R"("vocab":{"a":1.0})"), "id is 1.0"},
      {"ExponentId", model(R"("vocab":{"a":1e3})"), "id is 1e3"},
      {"HugeId", model(R"("vocab":{"a":18446744073709551616})"), "id is 1844"},
      {"IdBeyondLimit", model(R"("vocab":{"a":4294967295})"),
       "id out of range"},
      {"LoneLargeId", model(R"("vocab":{"a":16000000})"), "without large gaps"},
      {"TextId", model(R"("vocab":{"a":"0"})"),
       "model.vocab: is of another kind"},
      {"NullId", model(R"("vocab":{"a":null})"),
       "model.vocab: is of another kind"},
      {"NestedVocabulary", model(R"("vocab":{"a":{"b":0}})"), "model.vocab"},
      {"DuplicatePiece", model(R"("vocab":{"a":0,"a":1})"), "duplicate piece"},
      {"DuplicateId", model(R"("vocab":{"a":0,"b":0})"), "id 0 stands for two"},
      {"DuplicateVocabulary", model(R"("vocab":{"a":0},"vocab":{"b":1})"),
       "duplicate key \"vocab\""},
      {"DuplicateModel",
       absl::StrCat(SyntheticTokenizer{}.Json().substr(0, 1),
                    R"("model":{"vocab":{"a":0}},"model":{}})"),
       "duplicate key \"model\""},
      {"MergesAreAnObject", model(R"("vocab":{"a":0},"merges":{})"),
       "model.merges: is of another kind"},
      {"MergeIsANumber", model(R"("vocab":{"a":0},"merges":[1])"),
       "model.merges"},
      {"MergeIsAnObject", model(R"("vocab":{"a":0},"merges":[{}])"),
       "model.merges"},
      {"MergeOfOne", with({.merges = {"a"}}), "expected two pieces"},
      {"MergeOfThree", with({.merges = {"a b c"}}), "expected two pieces"},
      {"MergeWithTwoSpaces", with({.merges = {"a  b"}}), "expected two pieces"},
      {"MergePairOfOne", model(R"("vocab":{"a":0},"merges":[["a"]])"),
       "model.merges"},
      {"MergePairOfThree", model(R"("vocab":{"a":0},"merges":[["a","a","a"]])"),
       "model.merges"},
      {"MergePairOfNumbers", model(R"("vocab":{"a":0},"merges":[[0,1]])"),
       "model.merges"},
      {"MergesOfBothKinds",
       model(R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b",["a","b"]])"),
       "model.merges"},
      {"MergesOfBothKindsPairFirst",
       model(R"("vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"],"a b"])"),
       "model.merges"},
      {"MergeLeftNoPiece", with({.pieces = {"zzb"}, .merges = {"zz b"}}),
       "\"zz\" is not in the vocabulary"},
      {"MergeRightNoPiece", with({.pieces = {"azz"}, .merges = {"a zz"}}),
       "\"zz\" is not in the vocabulary"},
      {"MergeResultNoPiece", with({.merges = {"a b"}}),
       "\"ab\" is not in the vocabulary"},
      {"EarlyMergeResultNoPiece",
       model(R"("merges":["a b"],"vocab":{"a":0,"b":1})"),
       "model.merges: merge of \"a\" and \"b\""},
      {"AddedTokensAreAnObject", with({.added_tokens = "{}"}), "added_tokens"},
      {"AddedTokenIsText", with({.added_tokens = R"(["<x>"])"}),
       "added_tokens"},
      {"AddedTokenWithoutContent", with({.added_tokens = R"([{"id":256}])"}),
       "\"content\" is missing"},
      {"AddedTokenWithoutId", with({.added_tokens = R"([{"content":"<x>"}])"}),
       "id is missing"},
      {"AddedTokenNegativeId",
       with({.added_tokens = R"([{"id":-1,"content":"<x>"}])"}),
       "out of range"},
      {"AddedTokenHugeId",
       with({.added_tokens = R"([{"id":4294967295,"content":"<x>"}])"}),
       "out of range"},
      {"AddedTokenIdLeavesGap",
       with({.added_tokens = R"([{"id":300,"content":"<x>"}])"}),
       "expected 256, got 300"},
      {"AddedTokenIdOfAnother",
       with({.added_tokens = R"([{"id":97,"content":"<x>"}])"}),
       "expected 256, got 97"},
      {"AddedPieceWithOtherId",
       with({.added_tokens = R"([{"id":256,"content":"a"}])"}),
       "expected 97, got 256"},
      {"AddedTokenFlagOfAnotherKind",
       with({.added_tokens = R"([{"id":256,"content":"<x>","lstrip":1}])"}),
       "\"lstrip\" is of another kind"},
      {"PostProcessorIdWithoutToken",
       with({.post_processor =
                 R"({"type":"BertProcessing","cls":["c",256],"sep":["s",1]})"}),
       "id 256 has no token"},
      {"UnknownTokenMissing",
       with({.model_settings = R"(,"unk_token":"<unk>")",
             .missing_bytes = "\x04"}),
       "unk_token \"<unk>\" is not in the vocabulary"},
      {"SettingOfAnotherKind",
       with({.model_settings = R"(,"ignore_merges":"yes")"}),
       "\"ignore_merges\" is of another kind"},
      {"TypeOfAnotherKind", R"({"model":{"type":7,"vocab":{"a":0}}})",
       "\"type\" is of another kind"},
      {"SettingTooLarge", with({.normalizer = too_many_values}), "too large"},
      {"DuplicateKeyInSetting",
       with({.normalizer = R"({"type":"NFC","type":"NFD"})"}),
       "duplicate key \"type\""},
      {"DeepNesting",
       absl::StrCat(R"({"other":)", std::string(1000, '['),
                    std::string(1000, ']'), "}"),
       "nest"},
      {"InvalidUtf8", "{\"model\":{\"vocab\":{\"\xC3\":0}}}", "malformed"},
      {"NulByte", std::string("{\"a\":0}\0", 8), "NUL"},
  };
}

class DamagedTokenizerJsonTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedTokenizerJsonTest, IsRefused) {
  EXPECT_THAT(BuildFrom(GetParam().json),
              Fails(absl::StatusCode::kDataLoss, GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(All, DamagedTokenizerJsonTest,
                         ::testing::ValuesIn(Damages()), [](const auto& param) {
                           return std::string(param.param.name);
                         });

// Whatever is cut off, the rest is an error and never a crash.
TEST(TokenizerJsonTest, EveryPrefixIsRefused) {
  const std::string json =
      SyntheticTokenizer{
          .pieces = {"ab"},
          .merges = {"a b"},
          .added_tokens = absl::StrCat(
              "[", AddedTokenJson(257, "<x>", R"(,"special":true)"), "]"),
          .normalizer = R"({"type":"NFC"})"}
          .Json();
  ASSERT_THAT(BuildFrom(json), IsOk());
  for (size_t length = 0; length < json.size(); ++length) {
    ASSERT_THAT(BuildFrom(json.substr(0, length)),
                Fails(absl::StatusCode::kDataLoss, ""))
        << length;
  }
}

TEST(TokenizerJsonTest, NamesInMessagesAreEscapedAndCut) {
  const std::string evil = "\x1b[2J" + std::string(5000, 'x');
  std::string merge = evil + " b";
  const auto result = SyntheticTokenizer{.merges = {merge}}.Build();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().message().find('\x1b'), absl::string_view::npos);
  EXPECT_LT(result.status().message().size(), 500u);
}

}  // namespace
}  // namespace lowmem
