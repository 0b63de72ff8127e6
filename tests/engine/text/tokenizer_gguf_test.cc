// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a GGUF file: from its metadata directly, and through the
// tokenizer.json that is written from them.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/gguf_pre_tokenizers.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_json_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/checkpoint.h"
#include "storage/gguf_reader.h"
#include "tests/engine/text/synthetic_tokenizer.h"
#include "tests/support/faulty_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::FaultyFile;
using testing::GgufBuilder;
using testing::Ids;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::Raw;
using testing::RawString;

// A vocabulary as a GGUF file states it: the 256 bytes by their ids, then
// `tokens`.
struct GgufSpec {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::pair<std::string, int32_t>> tokens;  // text, type
  std::vector<std::string> merges;
  // More keys.
  std::function<void(GgufBuilder&)> more = [](GgufBuilder&) {};

  std::string Build() const {
    std::string texts;
    std::string types;
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      std::string piece;
      AppendInAlphabet(absl::string_view(&c, 1), piece);
      texts += RawString(piece);
      types += Raw<int32_t>(1);
    }
    for (const auto& [text, type] : tokens) {
      texts += RawString(text);
      types += Raw<int32_t>(type);
    }
    std::string lines;
    for (const std::string& merge : merges) lines += RawString(merge);
    const uint64_t num_tokens = 256 + tokens.size();
    GgufBuilder builder;
    if (!model.empty()) builder.Text("tokenizer.ggml.model", model);
    if (!pre.empty()) builder.Text("tokenizer.ggml.pre", pre);
    builder.Array("tokenizer.ggml.tokens", GgufBuilder::kString, num_tokens,
                  texts);
    builder.Array("tokenizer.ggml.token_type", GgufBuilder::kI32, num_tokens,
                  types);
    builder.Array("tokenizer.ggml.merges", GgufBuilder::kString, merges.size(),
                  lines);
    more(builder);
    return builder.Build();
  }
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
    const std::string& bytes, int failing_read = FaultyFile::kNever,
    int* num_reads = nullptr) {
  const FaultyFile file(bytes, failing_read);
  auto head = ReadGgufHead(file);
  if (!head.ok()) return head.status();
  auto tokenizer = LoadTokenizerFromGguf(head->metadata, "memory");
  if (num_reads != nullptr) *num_reads = file.num_reads();
  return tokenizer;
}

TEST(TokenizerGgufTest, TokenTypesDecide) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       Load(GgufSpec{.tokens = {{"ab", 1},
                                                {"<|im_end|>", 3},
                                                {"<think>", 4},
                                                {"[PAD259]", 5},
                                                {"<unk>", 2}},
                                     .merges = {"a b"}}
                                .Build()));
  EXPECT_THAT(Ids(*tokenizer, "ab<|im_end|><think><unk>"),
              ElementsAre(256, 257, 258, 260));
  EXPECT_TRUE(tokenizer->IsSpecial(257));
  EXPECT_FALSE(tokenizer->IsSpecial(258));
  EXPECT_TRUE(tokenizer->IsSpecial(260));
  EXPECT_EQ(tokenizer->FindToken("[PAD259]"), std::nullopt);
  EXPECT_EQ(tokenizer->TokenBytes(259), "");
  EXPECT_EQ(tokenizer->vocab_size(), 261u);
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(257));
}

TEST(TokenizerGgufTest, EndTokensAreTheKeysAndKnownControlTokens) {
  ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                       Load(GgufSpec{
                           .tokens = {{"<|endoftext|>", 3},
                                      {"<|eot_id|>", 4},
                                      {"<|im_end|>", 3},
                                      {"<fin>", 3},
                                      {"</s>", 1}},
                           .more = [](GgufBuilder& builder) {
                             builder.Uint32("tokenizer.ggml.eos_token_id", 259);
                             builder.Uint32("tokenizer.ggml.eot_token_id", 258);
                           }}.Build()));
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(259, 258, 256));
}

// In the harmony format the end of a message is not the end of a turn.
TEST(TokenizerGgufTest, EndOfHarmonyMessageDoesNotEndATurn) {
  ASSERT_OK_AND_ASSIGN(
      const auto tokenizer,
      Load(GgufSpec{
          .tokens = {{"<|end|>", 3}, {"<|return|>", 3}, {"<|call|>", 3}}}
               .Build()));
  EXPECT_THAT(tokenizer->eos_ids(), ElementsAre(257, 258));
  ASSERT_OK_AND_ASSIGN(const auto other,
                       Load(GgufSpec{.tokens = {{"<|end|>", 3}}}.Build()));
  EXPECT_THAT(other->eos_ids(), ElementsAre(256));
}

TEST(TokenizerGgufTest, BosAndEosGoAroundWhereTheKeysSaySo) {
  const auto load = [](const std::string& pre, int add_bos, int add_eos) {
    return Load(GgufSpec{
        .pre = pre,
        .tokens = {{"<s>", 3}, {"<e>", 3}},
        .more = [&](GgufBuilder& builder) {
          builder.Uint32("tokenizer.ggml.bos_token_id", 256);
          builder.Uint32("tokenizer.ggml.eos_token_id", 257);
          if (add_bos >= 0) {
            builder.Key("tokenizer.ggml.add_bos_token", GgufBuilder::kBool,
                        std::string(1, static_cast<char>(add_bos)));
          }
          if (add_eos >= 0) {
            builder.Key("tokenizer.ggml.add_eos_token", GgufBuilder::kBool,
                        std::string(1, static_cast<char>(add_eos)));
          }
        }}.Build());
  };
  const struct {
    const char* pre;
    int add_bos;  // -1: absent
    int add_eos;
    std::vector<int32_t> ids;
  } rows[] = {
      {"gpt-2", -1, -1, {'a'}},     {"gpt-2", 0, 0, {'a'}},
      {"gpt-2", 1, 0, {256, 'a'}},  {"gpt-2", 1, 1, {256, 'a', 257}},
      {"gpt-2", -1, 1, {'a', 257}}, {"llama-bpe", -1, -1, {256, 'a'}},
      {"llama-bpe", 0, -1, {'a'}},
  };
  for (const auto& row : rows) {
    ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                         load(row.pre, row.add_bos, row.add_eos));
    ASSERT_OK_AND_ASSIGN(const auto ids, tokenizer->Encode("a", {}));
    EXPECT_EQ(ids, row.ids) << row.pre << row.add_bos << row.add_eos;
    EXPECT_EQ(tokenizer->bos_id(), 256);
  }
}

TEST(TokenizerGgufTest, EachKnownPreTokenizerBuilds) {
  for (const char* pre : {"gpt-2",
                          "phi-2",
                          "mpt",
                          "olmo",
                          "smollm",
                          "starcoder",
                          "refact",
                          "command-r",
                          "qwen2",
                          "deepseek-r1-qwen",
                          "qwen35",
                          "llama-bpe",
                          "llama3",
                          "llama-v3",
                          "gpt-4o",
                          "llama4",
                          "tekken",
                          "deepseek-v3",
                          "deepseek-coder",
                          "default"}) {
    ASSERT_OK_AND_ASSIGN(const auto tokenizer,
                         Load(GgufSpec{.pre = pre}.Build()));
    EXPECT_EQ(Ids(*tokenizer, "Ab 12 \u4e2d!\n"),
              testing::Bytes("Ab 12 \u4e2d!\n"))
        << pre;
  }
}

TEST(TokenizerGgufTest, NormalizationThatTheFileDoesNotMention) {
  ASSERT_OK_AND_ASSIGN(const auto qwen2,
                       Load(GgufSpec{.pre = "qwen2"}.Build()));
  EXPECT_EQ(Ids(*qwen2, "e\u0301"), testing::Bytes("\u00e9"));
  ASSERT_OK_AND_ASSIGN(const auto smollm,
                       Load(GgufSpec{.pre = "smollm"}.Build()));
  EXPECT_EQ(Ids(*smollm, "e\u0301"), testing::Bytes("e\u0301"));
}

TEST(TokenizerGgufTest, UnsupportedIsNamed) {
  EXPECT_THAT(Load(GgufSpec{.model = "llama"}.Build()),
              Fails(absl::StatusCode::kUnimplemented,
                    "tokenizer.ggml.model: \"llama\""));
  EXPECT_THAT(Load(GgufSpec{.pre = "no-such-pre"}.Build()),
              Fails(absl::StatusCode::kUnimplemented, "\"no-such-pre\""));
  EXPECT_THAT(Load(GgufSpec{.pre = ""}.Build()),
              Fails(absl::StatusCode::kUnimplemented,
                    "tokenizer.ggml.pre: is missing"));
}

TEST(TokenizerGgufTest, DamageIsRefused) {
  const auto with = [](std::function<void(GgufBuilder&)> more) {
    return GgufSpec{.tokens = {{"<s>", 3}, {"[PAD]", 5}},
                    .more = std::move(more)}
        .Build();
  };
  const auto bare = [](uint64_t num_tokens, uint64_t num_types) {
    std::string texts;
    for (uint64_t i = 0; i < num_tokens; ++i)
      texts += RawString(absl::StrCat("t", i));
    std::string types;
    for (uint64_t i = 0; i < num_types; ++i) types += Raw<int32_t>(1);
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "gpt2");
    builder.Text("tokenizer.ggml.pre", "gpt-2");
    builder.Array("tokenizer.ggml.tokens", GgufBuilder::kString, num_tokens,
                  texts);
    builder.Array("tokenizer.ggml.token_type", GgufBuilder::kI32, num_types,
                  types);
    builder.Array("tokenizer.ggml.merges", GgufBuilder::kString, 0, "");
    return builder.Build();
  };
  const struct {
    const char* name;
    std::string bytes;
    const char* part;
  } rows[] = {
      {"no model", GgufSpec{.model = ""}.Build(),
       "tokenizer.ggml.model: is missing"},
      {"no tokens",
       GgufBuilder()
           .Text("tokenizer.ggml.model", "gpt2")
           .Text("tokenizer.ggml.pre", "gpt-2")
           .Build(),
       "tokenizer.ggml.tokens"},
      {"fewer types", bare(3, 2), "token_type"},
      {"more types", bare(2, 3), "token_type"},
      {"unknown type", GgufSpec{.tokens = {{"x", 7}}}.Build(), "is 7"},
      {"eos out of range", with([](GgufBuilder& b) {
         b.Uint32("tokenizer.ggml.eos_token_id", 258);
       }),
       "eos_token_id"},
      {"bos is unused", with([](GgufBuilder& b) {
         b.Uint32("tokenizer.ggml.bos_token_id", 257);
       }),
       "bos_token_id"},
      {"eos is a text",
       with([](GgufBuilder& b) { b.Text("tokenizer.ggml.eos_token_id", "1"); }),
       "eos_token_id"},
      {"bos is to be added and not named", with([](GgufBuilder& b) {
         b.Key("tokenizer.ggml.add_bos_token", GgufBuilder::kBool, "\x01");
       }),
       "add_bos_token"},
      {"duplicate piece", GgufSpec{.tokens = {{"a", 1}}}.Build(),
       "duplicate piece"},
      {"merge of unknown pieces", GgufSpec{.merges = {"a b"}}.Build(),
       "\"ab\" is not in the vocabulary"},
      {"merge of one piece", GgufSpec{.merges = {"ab"}}.Build(),
       "expected two pieces"},
      {"token is no UTF-8", GgufSpec{.tokens = {{"\xFF", 1}}}.Build(), "UTF-8"},
  };
  for (const auto& row : rows) {
    EXPECT_THAT(Load(row.bytes), Fails(absl::StatusCode::kDataLoss, row.part))
        << row.name;
    EXPECT_THAT(Load(row.bytes), Fails(absl::StatusCode::kDataLoss, "memory: "))
        << row.name;
  }
}

TEST(TokenizerGgufTest, EachFailingReadIsReported) {
  const std::string bytes =
      GgufSpec{.tokens = {{"ab", 1}, {"<s>", 3}}, .merges = {"a b"}}.Build();
  int num_reads = 0;
  ASSERT_THAT(Load(bytes, FaultyFile::kNever, &num_reads), IsOk());
  ASSERT_GT(num_reads, 3);
  for (int read = 0; read < num_reads; ++read) {
    EXPECT_THAT(Load(bytes, read),
                Fails(absl::StatusCode::kUnavailable, "injected fault"))
        << read;
  }
}

// A GGUF file, and the folder that is written from it.
class TokenizerJsonWriterTest : public ::testing::Test {
 protected:
  void WriteFrom(const GgufMetadata& metadata) {
    std::string json;
    std::string config;
    const auto append_to = [](std::string& out) {
      return [&out](absl::string_view text) {
        out.append(text.data(), text.size());
        return absl::OkStatus();
      };
    };
    ASSERT_THAT(WriteTokenizerJson(metadata, append_to(json)), IsOk());
    ASSERT_THAT(WriteTokenizerConfigJson(metadata, append_to(config)), IsOk());
    folder_.Write("tokenizer.json", json);
    folder_.Write("tokenizer_config.json", config);
    ASSERT_OK_AND_ASSIGN(json_, JsonValue::Parse(json));
    ASSERT_OK_AND_ASSIGN(config_, JsonValue::Parse(config));
  }

  testing::TemporaryFolder folder_;
  JsonValue json_;
  JsonValue config_;
};

TEST_F(TokenizerJsonWriterTest, WrittenFilesGiveTheSameIds) {
  const FaultyFile file(GgufSpec{
      .pre = "qwen2",
      .tokens = {{"ab", 1},
                 {"<|im_end|>", 3},
                 {"<think>", 4},
                 {"[PAD259]", 5},
                 {"\"\\\n", 4}},
      .merges = {"a b"},
      .more = [](GgufBuilder& builder) {
        builder.Text("general.architecture", "qwen2");
        builder.Uint32("qwen2.context_length", 4096);
        builder.Uint32("tokenizer.ggml.bos_token_id", 257);
        builder.Uint32("tokenizer.ggml.eos_token_id", 257);
        builder.Key("tokenizer.ggml.add_bos_token", GgufBuilder::kBool, "\x01");
        builder.Text("tokenizer.chat_template", "{{ \"a\nb\" }}");
      }}.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  WriteFrom(head.metadata);
  ASSERT_OK_AND_ASSIGN(const auto from_gguf,
                       LoadTokenizerFromGguf(head.metadata, "memory"));
  ASSERT_OK_AND_ASSIGN(const auto from_json,
                       LoadTokenizerFromFolder(folder_.path()));
  const std::string text = "ab e\u0301 12<|im_end|><think>\"\\\n[PAD259]";
  for (const bool parse_special : {true, false}) {
    const Tokenizer::EncodeOptions options{.parse_special = parse_special};
    ASSERT_OK_AND_ASSIGN(const auto ids, from_gguf->Encode(text, options));
    ASSERT_OK_AND_ASSIGN(const auto written_ids,
                         from_json->Encode(text, options));
    EXPECT_EQ(ids, written_ids);
    EXPECT_EQ(ids[0], 257);
  }
  EXPECT_EQ(from_json->vocab_size(), from_gguf->vocab_size());
  EXPECT_EQ(from_json->eos_ids(), from_gguf->eos_ids());
  EXPECT_EQ(from_json->bos_id(), from_gguf->bos_id());

  EXPECT_EQ(config_.Find("tokenizer_class")->string(),
            "PreTrainedTokenizerFast");
  EXPECT_EQ(config_.Find("chat_template")->string(), "{{ \"a\nb\" }}");
  EXPECT_EQ(config_.Find("model_max_length")->AsUint64(), 4096u);
  EXPECT_EQ(config_.Find("eos_token")->string(), "<|im_end|>");
  EXPECT_EQ(config_.Find("clean_up_tokenization_spaces")->AsBool(), false);
  EXPECT_EQ(config_.Find("unk_token"), nullptr);
  EXPECT_EQ(config_.Find("add_bos_token"), nullptr);
  EXPECT_EQ(config_.Find("added_tokens_decoder")
                ->Find("258")
                ->Find("special")
                ->AsBool(),
            false);
}

TEST_F(TokenizerJsonWriterTest, TinyModelsComeOutAsTheirOwnFiles) {
  for (const char* name : {"llama-f16", "llama3-bf16", "qwen2-f32"}) {
    ASSERT_OK_AND_ASSIGN(
        const auto checkpoint,
        Checkpoint::Open(
            absl::StrCat(LOWMEM_TESTDATA_DIR "/tiny-gguf/", name, ".gguf")));
    WriteFrom(*checkpoint->gguf_metadata());
    const auto tiny = ReadWholeFile(
        LOWMEM_TESTDATA_DIR "/tiny/llama/tokenizer.json", 1u << 20);
    ASSERT_THAT(tiny, IsOk());
    ASSERT_OK_AND_ASSIGN(const JsonValue expected, JsonValue::Parse(*tiny));
    // The tiny models keep added tokens out of the vocabulary; the file has one
    // list.
    const JsonValue& vocab = *json_.Find("model")->Find("vocab");
    for (const auto& [piece, id] :
         expected.Find("model")->Find("vocab")->members()) {
      ASSERT_NE(vocab.Find(piece), nullptr) << piece;
      EXPECT_EQ(vocab.Find(piece)->AsUint64(), id.AsUint64());
    }
    EXPECT_EQ(json_.Find("added_tokens")->items().size(),
              expected.Find("added_tokens")->items().size());
    EXPECT_EQ(json_.Find("model")->Find("merges")->items().size(),
              expected.Find("model")->Find("merges")->items().size());
    ASSERT_OK_AND_ASSIGN(const auto written,
                         LoadTokenizerFromFolder(folder_.path()));
    ASSERT_OK_AND_ASSIGN(const auto direct, LoadTokenizer(*checkpoint));
    for (const char* text :
         {"Hello  world 12", "<|im_start|>user\nHi<|im_end|>\n"}) {
      EXPECT_EQ(Ids(*written, text), Ids(*direct, text)) << name;
    }
  }
}

TEST_F(TokenizerJsonWriterTest, SinkThatFailsEndsTheWriting) {
  const FaultyFile file(GgufSpec{}.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  const auto full = [](absl::string_view) {
    return absl::UnavailableError("disk full");
  };
  EXPECT_THAT(WriteTokenizerJson(head.metadata, full),
              Fails(absl::StatusCode::kUnavailable, "disk full"));
  EXPECT_THAT(WriteTokenizerConfigJson(head.metadata, full),
              Fails(absl::StatusCode::kUnavailable, "disk full"));
}

TEST_F(TokenizerJsonWriterTest, LargeVocabulariesAreHandedOnInPieces) {
  std::vector<std::pair<std::string, int32_t>> tokens;
  for (int i = 0; i < 20'000; ++i)
    tokens.emplace_back(absl::StrCat("piece", i), 1);
  const FaultyFile file(GgufSpec{.tokens = std::move(tokens)}.Build());
  ASSERT_OK_AND_ASSIGN(const GgufHead head, ReadGgufHead(file));
  size_t longest = 0;
  size_t total = 0;
  ASSERT_THAT(WriteTokenizerJson(head.metadata,
                                 [&](absl::string_view text) {
                                   longest = std::max(longest, text.size());
                                   total += text.size();
                                   return absl::OkStatus();
                                 }),
              IsOk());
  EXPECT_GT(total, 300'000u);
  EXPECT_LT(longest, 70'000u);
}

}  // namespace
}  // namespace lowmem
