// SPDX-License-Identifier: Apache-2.0
// tokenize: JSON lines both ways, errors in their place, nothing that stops the
// rest.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "storage/base/json_writer.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One JSON value a line of stdout.
std::vector<JsonValue> Tokenize(const std::string& lines, bool decode = false,
                                const std::string& model = Tiny("llama")) {
  std::vector<std::string> args = {"-m", model, "tokenize"};
  if (decode) args.push_back("--decode");
  const SubprocessResult result = RunCli(args, lines);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  std::vector<JsonValue> values;
  for (absl::string_view line :
       absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
    values.push_back(ParseJsonText(std::string(line)));
  }
  return values;
}

TEST(TokenizeTest, IdsAndTextsAreTheReferences) {
  const JsonValue golden = ReadJsonFile(LOWMEM_TESTDATA_DIR "/tiny/text.json");
  const std::vector<JsonValue>& rows = At(golden, "bpe").items();
  std::string texts, ids;
  for (const JsonValue& row : rows) {
    JsonWriter text, id;
    text.BeginObject().Key("text").String(At(row, "text").string()).EndObject();
    id.BeginObject().Key("ids").Value(At(row, "ids"));
    id.Key("skip_special").Bool(true).EndObject();
    absl::StrAppend(&texts, text.text(), "\n");
    absl::StrAppend(&ids, id.text(), "\n");
  }
  const std::vector<JsonValue> encoded = Tokenize(texts);
  const std::vector<JsonValue> decoded = Tokenize(ids, /*decode=*/true);
  ASSERT_EQ(encoded.size(), rows.size());
  ASSERT_EQ(decoded.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(Integers(At(encoded[i], "ids")), Integers(At(rows[i], "ids")))
        << i;
    const std::string& text = At(decoded[i], "text").string();
    EXPECT_EQ(text, At(rows[i], "decoded").string()) << i;
    std::string joined;
    for (const JsonValue& piece : At(decoded[i], "pieces").items()) {
      joined += piece.string();
    }
    EXPECT_EQ(joined, text);
    EXPECT_EQ(At(decoded[i], "pieces").items().size(),
              At(rows[i], "ids").items().size() + 1);
  }
}

TEST(TokenizeTest, SpecialTokensAreParsedUnlessToldOtherwise) {
  const std::vector<JsonValue> lines = Tokenize(
      "{\"text\": \"<|im_start|>\"}\n"
      "{\"text\": \"<|im_start|>\", \"parse_special\": false}\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(Integers(At(lines[0], "ids")), ElementsAre(318));
  EXPECT_GT(Integers(At(lines[1], "ids")).size(), 1u);
}

TEST(TokenizeTest, SpecialTokensAreDecodedUnlessSkipped) {
  const std::vector<JsonValue> lines = Tokenize(
      "{\"ids\": [318, 39]}\n{\"ids\": [318, 39], \"skip_special\": true}\n",
      /*decode=*/true);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(At(lines[0], "text").string(), "<|im_start|>H");
  EXPECT_EQ(At(lines[1], "text").string(), "H");
}

TEST(TokenizeTest, HalfACharacterWaitsForItsRest) {
  const std::vector<JsonValue> encoded = Tokenize("{\"text\": \"\\u20ac\"}\n");
  const std::vector<int64_t> ids = Integers(At(encoded.at(0), "ids"));
  ASSERT_GT(ids.size(), 1u) << "the euro sign is several tokens here";
  const std::vector<JsonValue> decoded =
      Tokenize(absl::StrCat("{\"ids\": [", CommaSeparated(ids),
                            "]}\n{\"ids\": [", ids[0], "]}\n"),
               /*decode=*/true);
  const std::vector<JsonValue>& pieces = At(decoded.at(0), "pieces").items();
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].string(), i + 1 == ids.size() ? "\u20ac" : "") << i;
  }
  EXPECT_EQ(At(decoded.at(1), "pieces").items().at(1).string(), "\ufffd");
}

TEST(TokenizeTest, ABadLineIsAnErrorAndTheNextGoesOn) {
  const std::string bad[] = {"",
                             "x",
                             "[]",
                             "{}",
                             "{\"text\": 1}",
                             "{\"text\": \"a\", \"add_special\": 1}",
                             "{\"text\": \"a\"} {\"text\": \"a\"}",
                             "{\"text\": \"a\xff\"}",
                             std::string("{\"text\": \"a\"}\0", 14)};
  std::string lines;
  for (const std::string& line : bad) absl::StrAppend(&lines, line, "\n");
  const std::vector<JsonValue> answers =
      Tokenize(lines + "{\"text\": \"H\"}");  // without a newline at the end
  ASSERT_EQ(answers.size(), std::size(bad) + 1);
  for (size_t i = 0; i < std::size(bad); ++i) {
    EXPECT_FALSE(At(answers[i], "error").string().empty()) << bad[i];
    EXPECT_EQ(answers[i].members().size(), 1u);
  }
  EXPECT_THAT(Integers(At(answers.back(), "ids")), ElementsAre(39));
}

TEST(TokenizeTest, IdsThatAreNoneAreErrors) {
  const std::vector<JsonValue> answers = Tokenize(
      "{\"ids\": [320]}\n{\"ids\": [-1]}\n{\"ids\": [1.5]}\n{\"ids\": "
      "[\"1\"]}\n"
      "{\"ids\": 1}\n{\"ids\": [99999999999999999999]}\n{\"ids\": [39]}\n",
      /*decode=*/true);
  ASSERT_EQ(answers.size(), 7u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_THAT(At(answers[i], "error").string(), HasSubstr("ids")) << i;
  }
  EXPECT_EQ(At(answers[6], "text").string(), "H");
}

TEST(TokenizeTest, AFolderWithATokenizerAloneIsEnough) {
  const TempFolder folder;
  WriteFile(folder.Path("tokenizer.json"),
            ReadFile(Tiny("llama") + "/tokenizer.json"));
  EXPECT_THAT(
      Integers(
          At(Tokenize("{\"text\": \"H\"}", false, folder.path()).at(0), "ids")),
      ElementsAre(39));
}

TEST(TokenizeTest, AnswersALineBeforeTheNextIsThere) {
  SubprocessOptions options;
  options.program = Cli();
  options.args = {"-m", Tiny("llama"), "tokenize"};
  options.stdin_text = "{\"text\": \"H\"}\n";
  options.keep_stdin_open = true;
  Subprocess process(options);
  EXPECT_TRUE(process.WaitForStdout(std::string("{\"ids\":[39]}\n").size()));
}

}  // namespace
}  // namespace lowmem::testing
