// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer_json_writer.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/text/gguf_vocabulary.h"
#include "engine/text/tokenizer_builder.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr size_t kFlushBytes = 64u << 10;

// Hands the text on once there is enough of it.
absl::Status FlushIfLong(JsonWriter& json, TextSink sink) {
  if (json.text().size() < kFlushBytes) return absl::OkStatus();
  return sink(json.TakeText());
}

// The members that both files give for an added token.
void WriteTokenMembers(const AddedToken& token, JsonWriter& json) {
  json.Key("content").String(token.content);
  json.Key("single_word").Bool(token.single_word);
  json.Key("lstrip").Bool(token.lstrip);
  json.Key("rstrip").Bool(token.rstrip);
  json.Key("normalized").Bool(token.normalized);
  json.Key("special").Bool(token.special);
}

absl::Status WriteVocabulary(const GgufMetadata& metadata,
                             const GgufVocabulary& vocabulary, JsonWriter& json,
                             TextSink sink) {
  json.Key("vocab").BeginObject();
  LOWMEM_RETURN_IF_ERROR(vocabulary.ForEachToken(
      metadata, [&](int32_t id, absl::string_view text) {
        json.Key(text).Uint(static_cast<uint64_t>(id));
        return FlushIfLong(json, sink);
      }));
  json.EndObject();
  // "left right": the form that every release of the reference reads.
  json.Key("merges").BeginArray();
  LOWMEM_RETURN_IF_ERROR(metadata.ForEachString(
      kGgufMergesKey, [&](uint64_t, absl::string_view line) -> absl::Status {
        if (const auto pieces = SplitMergeLine(line); !pieces.ok()) {
          return pieces.status();
        }
        json.String(line);
        return FlushIfLong(json, sink);
      }));
  json.EndArray();
  return absl::OkStatus();
}

std::optional<uint64_t> ContextLength(const GgufMetadata& metadata) {
  const std::string* architecture = metadata.GetString("general.architecture");
  if (architecture == nullptr) return std::nullopt;
  return metadata.GetUint(absl::StrCat(*architecture, ".context_length"));
}

}  // namespace

absl::Status WriteTokenizerJson(const GgufMetadata& metadata, TextSink sink) {
  LOWMEM_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary,
                          GgufVocabulary::Read(metadata));
  JsonWriter json;
  json.BeginObject();
  json.Key("version").String("1.0");
  json.Key("truncation").Null();
  json.Key("padding").Null();
  json.Key("added_tokens").BeginArray();
  for (const AddedToken& token : vocabulary.added_tokens) {
    json.BeginObject();
    json.Key("id").Uint(static_cast<uint64_t>(token.id));
    WriteTokenMembers(token, json);
    json.EndObject();
    LOWMEM_RETURN_IF_ERROR(FlushIfLong(json, sink));
  }
  json.EndArray();
  json.Key("normalizer").Value(vocabulary.normalizer);
  json.Key("pre_tokenizer").Value(vocabulary.pre_tokenizer);
  json.Key("post_processor").Value(vocabulary.post_processor);
  json.Key("decoder").Value(vocabulary.decoder);
  json.Key("model").BeginObject();
  for (const auto& [key, value] : vocabulary.model.members()) {
    json.Key(key).Value(value);
  }
  LOWMEM_RETURN_IF_ERROR(WriteVocabulary(metadata, vocabulary, json, sink));
  json.EndObject().EndObject();
  return sink(json.TakeText());
}

absl::Status WriteTokenizerConfigJson(const GgufMetadata& metadata,
                                      TextSink sink) {
  LOWMEM_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary,
                          GgufVocabulary::Read(metadata));
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject();
  json.Key("tokenizer_class").String("PreTrainedTokenizerFast");
  const struct {
    const char* key;
    const std::optional<GgufNamedToken>& token;
  } named[] = {
      {"bos_token", vocabulary.bos},
      {"eos_token", vocabulary.eos},
      {"unk_token", vocabulary.unknown},
      {"pad_token", vocabulary.padding},
  };
  for (const auto& entry : named) {
    if (entry.token.has_value()) json.Key(entry.key).String(entry.token->text);
  }
  json.Key("clean_up_tokenization_spaces").Bool(false);
  if (const auto length = ContextLength(metadata); length.has_value()) {
    json.Key("model_max_length").Uint(*length);
  }
  json.Key("added_tokens_decoder").BeginObject();
  for (const AddedToken& token : vocabulary.added_tokens) {
    json.Key(absl::StrCat(token.id)).BeginObject();
    WriteTokenMembers(token, json);
    json.EndObject();
    LOWMEM_RETURN_IF_ERROR(FlushIfLong(json, sink));
  }
  json.EndObject();
  if (const std::string* chat_template =
          metadata.GetString("tokenizer.chat_template")) {
    json.Key("chat_template").String(*chat_template);
  }
  json.EndObject();
  return sink(absl::StrCat(json.TakeText(), "\n"));
}

}  // namespace lowmem
