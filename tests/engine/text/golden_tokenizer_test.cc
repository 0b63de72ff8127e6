// SPDX-License-Identifier: Apache-2.0
// Published vocabularies against what the reference makes of them: 832 strings
// and 60 random id sequences each, ids and text equal without exception. The
// golden values are described in tests/testdata/tokenizers; the vocabularies
// are fetched into models/vocab and a test whose vocabulary is absent is
// skipped by name.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/text/tokenizer.h"
#include "engine/text/utf8_text.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/checkpoint.h"
#include "storage/file.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

JsonValue ReadJson(const std::string& name) {
  const auto text = ReadWholeFile(absl::StrCat(LOWMEM_TESTDATA_DIR "/", name),
                                  uint64_t{64} << 20);
  EXPECT_THAT(text, testing::IsOk());
  if (!text.ok()) return JsonValue();
  auto value = JsonValue::Parse(*text);
  EXPECT_THAT(value, testing::IsOk());
  return value.ok() ? *std::move(value) : JsonValue();
}

// The golden files' lists of ids: -n is followed by an id that stands n times.
std::vector<int32_t> ExpandIds(const JsonValue& list) {
  std::vector<int32_t> ids;
  int64_t times = 1;
  for (const JsonValue& item : list.items()) {
    const int64_t value = *item.AsInt64();
    if (value < 0) {
      times = -value;
      continue;
    }
    ids.insert(ids.end(), times, static_cast<int32_t>(value));
    times = 1;
  }
  return ids;
}

// The text of member `key`, or `fallback` where the golden file leaves it out.
std::string TextOr(const JsonValue& object, absl::string_view key,
                   const std::string& fallback) {
  const JsonValue* value = object.Find(key);
  return value == nullptr ? fallback : value->string();
}

// Streams `ids` and checks the contract of the pieces: valid UTF-8, nothing
// later than the id that completes it, together the decoded text.
void ExpectStreamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                    bool skip_special, const std::string& text) {
  StreamingDetokenizer detokenizer(tokenizer, skip_special);
  std::string streamed;
  std::string bytes;
  for (const int32_t id : ids) {
    ASSERT_OK_AND_ASSIGN(const std::string piece, detokenizer.Add(id));
    ASSERT_EQ(FindInvalidUtf8(piece), std::nullopt);
    streamed += piece;
    if (!skip_special || !tokenizer.IsSpecial(id))
      bytes += tokenizer.TokenBytes(id);
    // Whatever is complete in the bytes so far has been handed out: what is
    // held back is shorter than a character and by itself no text.
    std::string so_far;
    AppendAsText(bytes, /*at_end=*/false, so_far);
    ASSERT_EQ(streamed, so_far);
  }
  streamed += detokenizer.Finish();
  EXPECT_EQ(streamed, text);
}

void ExpectDecoded(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                   const std::string& text, const std::string& text_skipped) {
  for (const bool skip_special : {false, true}) {
    const std::string& expected = skip_special ? text_skipped : text;
    ASSERT_OK_AND_ASSIGN(const std::string decoded,
                         tokenizer.Decode(ids, skip_special));
    EXPECT_EQ(decoded, expected);
    ExpectStreamed(tokenizer, ids, skip_special, expected);
  }
}

void ExpectEncoded(const Tokenizer& tokenizer, const std::string& text,
                   bool parse_special, const std::vector<int32_t>& expected) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<int32_t> ids,
      tokenizer.Encode(text,
                       {.add_special = false, .parse_special = parse_special}));
  EXPECT_EQ(ids, expected);
}

void CheckAgainstGolden(const Tokenizer& tokenizer, const std::string& name) {
  const JsonValue strings = ReadJson("tokenizers/strings.json");
  const JsonValue golden = ReadJson(absl::StrCat("tokenizers/", name, ".json"));
  const std::vector<JsonValue>& texts = strings.Find("strings")->items();
  const std::vector<JsonValue>& cases = golden.Find("cases")->items();
  ASSERT_EQ(texts.size(), cases.size());
  ASSERT_GE(cases.size(), 832u);
  // The golden number counts tokens; ids may leave gaps (gpt4o's do).
  EXPECT_GE(tokenizer.vocab_size(), *golden.Find("vocab_size")->AsUint64());

  for (size_t i = 0; i < cases.size(); ++i) {
    // utf8proc's and PCRE2's tables are those of Unicode 14.
    if (texts[i].Find("unicode") != nullptr) continue;
    const std::string& text = texts[i].Find("text")->string();
    SCOPED_TRACE(absl::StrCat("string ", i, " of ", name));
    const std::vector<int32_t> ids = ExpandIds(*cases[i].Find("ids"));
    ExpectEncoded(tokenizer, text, /*parse_special=*/true, ids);
    const JsonValue* plain = cases[i].Find("plain_ids");
    ExpectEncoded(tokenizer, text, /*parse_special=*/false,
                  plain == nullptr ? ids : ExpandIds(*plain));
    const std::string decoded = TextOr(cases[i], "decoded", text);
    ExpectDecoded(tokenizer, ids, decoded,
                  TextOr(cases[i], "decoded_skip", decoded));
    if (::testing::Test::HasFatalFailure()) return;
  }

  for (const JsonValue& sequence : golden.Find("decode")->items()) {
    const std::string& text = sequence.Find("text")->string();
    ExpectDecoded(tokenizer, ExpandIds(*sequence.Find("ids")), text,
                  TextOr(sequence, "decoded_skip", text));
  }

  std::vector<int32_t> around = ExpandIds(*golden.Find("prefix"));
  const std::vector<int32_t> suffix = ExpandIds(*golden.Find("suffix"));
  around.insert(around.end(), suffix.begin(), suffix.end());
  ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> empty,
                       tokenizer.Encode("", {}));
  EXPECT_EQ(empty, around);
}

void CheckFolder(const std::string& name) {
  const std::string folder =
      absl::StrCat(LOWMEM_SOURCE_DIR "/models/vocab/", name);
  auto tokenizer = LoadTokenizerFromFolder(folder);
  if (absl::IsNotFound(tokenizer.status())) {
    GTEST_SKIP() << "vocabulary " << name << " is absent: " << folder;
  }
  ASSERT_THAT(tokenizer, testing::IsOk());
  CheckAgainstGolden(**tokenizer, name);
}

void CheckGguf(const std::string& path, const std::string& name) {
  auto checkpoint = Checkpoint::Open(path);
  if (absl::IsNotFound(checkpoint.status())) {
    GTEST_SKIP() << "model " << name << " is absent: " << path;
  }
  ASSERT_THAT(checkpoint, testing::IsOk());
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, LoadTokenizer(**checkpoint));
  CheckAgainstGolden(*tokenizer, name);
}

TEST(GoldenTokenizerTest, Smollm2) { CheckFolder("smollm2"); }
TEST(GoldenTokenizerTest, Qwen2_5Coder) { CheckFolder("qwen2_5_coder"); }
TEST(GoldenTokenizerTest, Qwen3) { CheckFolder("qwen3"); }
TEST(GoldenTokenizerTest, Llama3) { CheckFolder("llama3"); }
TEST(GoldenTokenizerTest, Llama3_1) { CheckFolder("llama3_1"); }
TEST(GoldenTokenizerTest, Gpt4o) { CheckFolder("gpt4o"); }
TEST(GoldenTokenizerTest, GptOss) { CheckFolder("gptoss"); }
TEST(GoldenTokenizerTest, DeepSeekV3) { CheckFolder("deepseek_v3"); }

TEST(GoldenTokenizerTest, Smollm2FromGguf) {
  CheckGguf(LOWMEM_SOURCE_DIR "/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            "smollm2");
}
TEST(GoldenTokenizerTest, Qwen2_5CoderFromGguf) {
  CheckGguf(
      LOWMEM_SOURCE_DIR
      "/models/qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
      "qwen2_5_coder");
}

// The tiny models' own tokenizer, which is in the repository.
TEST(GoldenTokenizerTest, TinyModels) {
  const JsonValue golden = ReadJson("tiny/text.json");
  const std::vector<JsonValue>& cases = golden.Find("bpe")->items();
  ASSERT_FALSE(cases.empty());
  for (const char* model : {"llama", "llama3", "qwen2"}) {
    ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                         LoadTokenizerFromFolder(absl::StrCat(
                             LOWMEM_TESTDATA_DIR "/tiny/", model)));
    for (const JsonValue& entry : cases) {
      const std::string& text = entry.Find("text")->string();
      SCOPED_TRACE(absl::StrCat(model, ": ", text));
      ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer->Encode(text, {}));
      EXPECT_EQ(ids, ExpandIds(*entry.Find("ids")));
      ASSERT_OK_AND_ASSIGN(const auto decoded,
                           tokenizer->Decode(ids, /*skip_special=*/true));
      EXPECT_EQ(decoded, entry.Find("decoded")->string());
    }
  }
}

}  // namespace
}  // namespace lowmem
