// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/convert_tokenizer.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/text/added_tokens.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"
#include "storage/file.h"

namespace lowmem {
namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr absl::string_view kTemplateKey = "tokenizer.chat_template";

void WriteAddedTokens(const std::vector<AddedToken>& tokens, JsonWriter& json) {
  json.Key("added_tokens").BeginArray();
  for (const AddedToken& token : tokens) {
    json.BeginObject().Key("id").Int(token.id);
    json.Key("content").String(token.content);
    json.Key("single_word").Bool(token.single_word);
    json.Key("lstrip").Bool(token.lstrip).Key("rstrip").Bool(token.rstrip);
    json.Key("normalized").Bool(token.normalized);
    json.Key("special").Bool(token.special).EndObject();
  }
  json.EndArray();
}

void WriteToken(absl::string_view key,
                const std::optional<GgufNamedToken>& token, JsonWriter& json) {
  json.Key(key);
  if (token.has_value()) {
    json.String(token->text);
  } else {
    json.Null();
  }
}

// The default template as a string; where there are others ("tool_use"), all of
// them as the list that transformers reads.
void WriteChatTemplates(const GgufMetadata& metadata, JsonWriter& json) {
  const std::string* default_template = metadata.GetString(kTemplateKey);
  std::vector<std::pair<absl::string_view, const std::string*>> named;
  for (const auto& [key, value] : metadata.values()) {
    absl::string_view name = key;
    if (absl::ConsumePrefix(&name, kTemplateKey) &&
        absl::ConsumePrefix(&name, ".") && value.type == GgufType::kString) {
      named.emplace_back(name, &value.text);
    }
  }
  if (default_template == nullptr && named.empty()) return;
  json.Key("chat_template");
  if (named.empty()) {
    json.String(*default_template);
    return;
  }
  if (default_template != nullptr) {
    named.insert(named.begin(), {"default", default_template});
  }
  json.BeginArray();
  for (const auto& [name, text] : named) {
    json.BeginObject().Key("name").String(name);
    json.Key("template").String(*text).EndObject();
  }
  json.EndArray();
}

}  // namespace

absl::Status WriteTokenizerJson(const GgufVocabulary& vocabulary,
                                const GgufMetadata& metadata,
                                const std::string& path) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  JsonWriter json;
  const auto flush_if_large = [&]() -> absl::Status {
    if (json.text().size() < kPieceBytes) return absl::OkStatus();
    return file->Append(json.TakeText());
  };
  json.BeginObject().Key("version").String("1.0");
  json.Key("truncation").Null().Key("padding").Null();
  WriteAddedTokens(vocabulary.added_tokens, json);
  json.Key("normalizer").Value(vocabulary.normalizer);
  json.Key("pre_tokenizer").Value(vocabulary.pre_tokenizer);
  json.Key("post_processor").Value(vocabulary.post_processor);
  json.Key("decoder").Value(vocabulary.decoder);
  json.Key("model").BeginObject();
  for (const auto& [key, value] : vocabulary.model.members()) {
    json.Key(key).Value(value);
  }
  json.Key("vocab").BeginObject();
  LOWMEM_RETURN_IF_ERROR(vocabulary.ForEachToken(
      metadata, [&](int32_t id, absl::string_view text) {
        json.Key(text).Int(id);
        return flush_if_large();
      }));
  json.EndObject().Key("merges").BeginArray();
  // "a b" is read by every version; bytes are mapped so that no token has a
  // space.
  LOWMEM_RETURN_IF_ERROR(metadata.ForEachString(
      kGgufMergesKey, [&](uint64_t, absl::string_view line) {
        json.String(line);
        return flush_if_large();
      }));
  json.EndArray().EndObject().EndObject();
  LOWMEM_RETURN_IF_ERROR(file->Append(json.TakeText()));
  return file->Commit();
}

absl::Status WriteTokenizerConfigJson(const GgufVocabulary& vocabulary,
                                      const GgufMetadata& metadata,
                                      uint64_t max_context_tokens,
                                      const std::string& path) {
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject();
  WriteToken("bos_token", vocabulary.bos, json);
  WriteChatTemplates(metadata, json);
  // Decoding must give back the text, spaces before punctuation included.
  json.Key("clean_up_tokenization_spaces").Bool(false);
  WriteToken("eos_token", vocabulary.eos, json);
  json.Key("model_max_length").Uint(max_context_tokens);
  WriteToken("pad_token", vocabulary.padding, json);
  // Takes tokenizer.json as it is; the classes of some models change its steps.
  json.Key("tokenizer_class").String("PreTrainedTokenizerFast");
  WriteToken("unk_token", vocabulary.unknown, json);
  json.EndObject();
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  LOWMEM_RETURN_IF_ERROR(file->Append(absl::StrCat(json.text(), "\n")));
  return file->Commit();
}

}  // namespace lowmem
