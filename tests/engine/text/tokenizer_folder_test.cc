// SPDX-License-Identifier: Apache-2.0
// LoadTokenizerFromFolder: tokenizer.json and what tokenizer_config.json adds.
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/text/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/limits.h"
#include "tests/engine/text/synthetic_tokenizer.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using testing::AddedTokenJson;
using ::testing::ElementsAre;
using testing::Fails;
using testing::Ids;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::SyntheticTokenizer;

class TokenizerFolderTest : public ::testing::Test {
 protected:
  TokenizerFolderTest() {
    folder_.Write(
        "tokenizer.json",
        SyntheticTokenizer{
            .pieces = {"</s>"},
            .added_tokens = absl::StrCat(
                "[", AddedTokenJson(257, "<s>", R"(,"special":true)"), ",",
                AddedTokenJson(258, "<end>", R"(,"special":true)"), "]")}
            .Json());
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> LoadWith(
      const std::string& config) {
    folder_.Write("tokenizer_config.json", config);
    return LoadTokenizerFromFolder(folder_.path());
  }

  testing::TemporaryFolder folder_;
};

TEST_F(TokenizerFolderTest, ConfigMayBeAbsent) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       LoadTokenizerFromFolder(folder_.path()));
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_THAT(tokenizer->eos_ids(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto with_slash,
                       LoadTokenizerFromFolder(folder_.path() + "/"));
  EXPECT_EQ(with_slash->vocab_size(), 259u);
}

TEST_F(TokenizerFolderTest, EndTokenByTextOrObject) {
  for (const char* eos :
       {R"("<end>")", R"({"__type":"AddedToken","content":"<end>"})"}) {
    ASSERT_OK_AND_ASSIGN(
        const auto tokenizer,
        LoadWith(absl::StrCat(R"({"bos_token":"<s>","eos_token":)", eos, "}")));
    EXPECT_EQ(tokenizer->bos_id(), 257);
    EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(258));
  }
}

TEST_F(TokenizerFolderTest, EndTokenMayBeAPieceOrUnknownOrNull) {
  ASSERT_OK_AND_ASSIGN(const auto piece, LoadWith(R"({"eos_token":"</s>"})"));
  EXPECT_THAT(piece->eos_ids(), ElementsAre(256));
  ASSERT_OK_AND_ASSIGN(const auto unknown,
                       LoadWith(R"({"eos_token":"<gone>"})"));
  EXPECT_THAT(unknown->eos_ids(), IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto null,
                       LoadWith(R"({"eos_token":null,"bos_token":null})"));
  EXPECT_THAT(null->eos_ids(), IsEmpty());
  EXPECT_EQ(null->bos_id(), std::nullopt);
}

// Only the post-processor adds anything; the setting is one of Python classes.
TEST_F(TokenizerFolderTest, AddBosTokenChangesNothing) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      LoadWith(
          R"({"add_bos_token":true,"add_eos_token":true,"bos_token":"<s>","eos_token":"<end>"})"));
  ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer->Encode("a", {}));
  EXPECT_THAT(ids, ElementsAre('a'));
}

TEST_F(TokenizerFolderTest, ConfigAddsTokensThatTheTokenizerLacks) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       LoadWith(R"({"added_tokens_decoder":{
          "260":{"content":"<b>","special":false,"normalized":false},
          "259":{"content":"<a>","special":true},
          "258":{"content":"<end>","special":false}}})"));
  EXPECT_THAT(Ids(*tokenizer, "<a><b><end>"), ElementsAre(259, 260, 258));
  EXPECT_TRUE(tokenizer->IsSpecial(259));
  EXPECT_FALSE(tokenizer->IsSpecial(260));
  EXPECT_TRUE(tokenizer->IsSpecial(258)) << "tokenizer.json decides";
  EXPECT_EQ(tokenizer->vocab_size(), 261u);
}

TEST_F(TokenizerFolderTest, DamagedConfigIsRefused) {
  const struct {
    const char* config;
    const char* part;
  } rows[] = {
      {"", "malformed"},
      {"[]", "expected an object"},
      {"7", "expected an object"},
      {R"({"eos_token":7})", "\"eos_token\" is of another kind"},
      {R"({"eos_token":["<end>"]})", "\"eos_token\" is of another kind"},
      {R"({"bos_token":{"text":"<s>"}})", "\"bos_token\" is of another kind"},
      {R"({"eos_token":"a","eos_token":"b"})", "duplicate key"},
      {R"({"added_tokens_decoder":[]})", "added_tokens_decoder"},
      {R"({"added_tokens_decoder":{"x":{"content":"<a>"}}})", "id is \"x\""},
      {R"({"added_tokens_decoder":{"-1":{"content":"<a>"}}})", "id is \"-1\""},
      {R"({"added_tokens_decoder":{"259":{}}})", "\"content\" is missing"},
      {R"({"added_tokens_decoder":{"259":7}})", "content"},
      {R"({"added_tokens_decoder":{"300":{"content":"<a>"}}})",
       "expected 259, got 300"},
      {R"({"added_tokens_decoder":{"259":{"content":"<a>"},"259":{"content":"<b>"}}})",
       "duplicate key \"259\""},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(LoadWith(row.config),
                Fails(absl::StatusCode::kDataLoss, row.part))
        << row.config;
    EXPECT_THAT(LoadWith(row.config),
                Fails(absl::StatusCode::kDataLoss, "tokenizer_config.json: "));
  }
}

TEST_F(TokenizerFolderTest, MessagesNameTheFileOnce) {
  folder_.Write("tokenizer.json", R"({"model":{"vocab":{"a":-1}}})");
  const auto result = LoadTokenizerFromFolder(folder_.path());
  EXPECT_THAT(result,
              Fails(absl::StatusCode::kDataLoss,
                    absl::StrCat(folder_.path(), "/tokenizer.json: model")));
  const absl::string_view message = result.status().message();
  EXPECT_EQ(message.find("tokenizer.json"), message.rfind("tokenizer.json"));
}

TEST_F(TokenizerFolderTest, AbsentTokenizerIsNotFound) {
  const testing::TemporaryFolder empty;
  EXPECT_THAT(LoadTokenizerFromFolder(empty.path()),
              Fails(absl::StatusCode::kNotFound, "tokenizer.json"));
}

TEST_F(TokenizerFolderTest, TextThatIsNoTextIsTheCallersFault) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       LoadTokenizerFromFolder(folder_.path()));
  EXPECT_THAT(tokenizer->Encode("ab\xFF", {}),
              Fails(absl::StatusCode::kInvalidArgument, "UTF-8 at byte 2"));
  EXPECT_THAT(tokenizer->Encode(std::string(limits::kPromptBytes + 1, 'a'), {}),
              Fails(absl::StatusCode::kInvalidArgument, "too long"));
}

}  // namespace
}  // namespace lowmem
