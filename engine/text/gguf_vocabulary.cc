// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf_vocabulary.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/gguf_pre_tokenizers.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Names by which published models end a turn, a message or a text. A file's
// eos_token_id names only one of its model's.
constexpr absl::string_view kEndNames[] = {
    "<|im_end|>",       "<|endoftext|>", "<|eot_id|>",    "<|end_of_text|>",
    "<|eom_id|>",       "<|end|>",       "</s>",          "<|return|>",
    "<|call|>",         "<|eot|>",       "<|eom|>",       "<EOT>",
    "<|END_OF_TURN_TOKEN|>", "<end_of_turn>",
};

JsonValue Number(int64_t value) {
  return JsonValue::Number(absl::StrCat(value));
}

JsonValue Object(std::vector<JsonValue::Member> members) {
  return JsonValue::Object(std::move(members));
}

absl::StatusOr<std::vector<GgufTokenType>> ReadTypes(const GgufMetadata& metadata,
                                                     uint64_t num_tokens) {
  constexpr absl::string_view kKey = "tokenizer.ggml.token_type";
  std::vector<GgufTokenType> types;
  if (metadata.Find(kKey) == nullptr) {
    types.assign(num_tokens, GgufTokenType::kNormal);
    return types;
  }
  types.reserve(num_tokens);
  LOWMEM_RETURN_IF_ERROR(
      metadata.ForEachInt(kKey, [&](uint64_t idx, int64_t value) {
        if (idx >= num_tokens || value < 1 || value > 6) {
          return absl::DataLossError(absl::StrCat(
              kKey, ": entry ", idx, " is ", value, "; expected 1 to 6 for each of ",
              num_tokens, " tokens"));
        }
        types.push_back(static_cast<GgufTokenType>(value));
        return absl::OkStatus();
      }));
  if (types.size() != num_tokens) {
    return absl::DataLossError(absl::StrCat(kKey, ": wrong number of entries; ",
                                            "expected ", num_tokens, ", got ",
                                            types.size()));
  }
  return types;
}

// The id under `key`; its text is filled in later.
absl::StatusOr<std::optional<GgufNamedToken>> ReadNamedId(
    const GgufMetadata& metadata, absl::string_view key,
    const std::vector<GgufTokenType>& types) {
  if (metadata.Find(key) == nullptr) return std::optional<GgufNamedToken>();
  const std::optional<uint64_t> id = metadata.GetUint(key);
  if (!id.has_value() || *id >= types.size() ||
      types[*id] == GgufTokenType::kUnused) {
    return absl::DataLossError(absl::StrCat(
        key, ": no id of a token; expected one of ", types.size(), " tokens",
        id.has_value() ? absl::StrCat(", got ", *id) : ""));
  }
  return std::optional<GgufNamedToken>({static_cast<int32_t>(*id), ""});
}

// {"type": "TemplateProcessing", ...} with the tokens that go around a text.
JsonValue MakePostProcessor(const GgufNamedToken* before,
                            const GgufNamedToken* after) {
  if (before == nullptr && after == nullptr) return JsonValue();
  const auto piece = [](const char* kind, const std::string& id, int type_id) {
    return Object({{kind, Object({{"id", JsonValue::String(id)},
                                  {"type_id", Number(type_id)}})}});
  };
  std::vector<JsonValue> single;
  std::vector<JsonValue> pair;
  std::vector<JsonValue::Member> special;
  const auto add_special = [&](const GgufNamedToken& token) {
    for (const auto& [name, value] : special) {
      if (name == token.text) return;
    }
    std::vector<JsonValue> ids;
    ids.push_back(Number(token.id));
    std::vector<JsonValue> texts;
    texts.push_back(JsonValue::String(token.text));
    special.emplace_back(
        token.text, Object({{"id", JsonValue::String(token.text)},
                            {"ids", JsonValue::Array(std::move(ids))},
                            {"tokens", JsonValue::Array(std::move(texts))}}));
  };
  for (int type_id = 0; type_id < 2; ++type_id) {
    std::vector<JsonValue> pieces;
    if (before != nullptr) {
      pieces.push_back(piece("SpecialToken", before->text, type_id));
      add_special(*before);
    }
    pieces.push_back(piece("Sequence", type_id == 0 ? "A" : "B", type_id));
    if (after != nullptr) {
      pieces.push_back(piece("SpecialToken", after->text, type_id));
      add_special(*after);
    }
    if (type_id == 0) single = pieces;
    pair.insert(pair.end(), pieces.begin(), pieces.end());
  }
  return Object({{"type", JsonValue::String("TemplateProcessing")},
                 {"single", JsonValue::Array(std::move(single))},
                 {"pair", JsonValue::Array(std::move(pair))},
                 {"special_tokens", Object(std::move(special))}});
}

JsonValue MakeModel(bool ignore_merges) {
  return Object({{"type", JsonValue::String("BPE")},
                 {"dropout", JsonValue()},
                 {"unk_token", JsonValue()},
                 {"continuing_subword_prefix", JsonValue()},
                 {"end_of_word_suffix", JsonValue()},
                 {"fuse_unk", JsonValue::Bool(false)},
                 {"byte_fallback", JsonValue::Bool(false)},
                 {"ignore_merges", JsonValue::Bool(ignore_merges)}});
}

bool IsEndName(absl::string_view text) {
  return std::find(std::begin(kEndNames), std::end(kEndNames), text) !=
         std::end(kEndNames);
}

void AddOnce(int32_t id, std::vector<int32_t>& ids) {
  if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

// In the harmony format <|end|> ends a message, after which the model goes on; its
// turn ends with <|return|> or <|call|>.
void DropEndOfHarmonyMessage(const std::vector<AddedToken>& tokens,
                             std::vector<int32_t>& eos_ids) {
  const auto find = [&](absl::string_view content) {
    return std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) {
      return token.content == content;
    });
  };
  const auto end = find("<|end|>");
  if (end == tokens.end() || find("<|return|>") == tokens.end() ||
      find("<|call|>") == tokens.end()) {
    return;
  }
  eos_ids.erase(std::remove(eos_ids.begin(), eos_ids.end(), end->id),
                eos_ids.end());
}

absl::Status CheckModel(const GgufMetadata& metadata) {
  constexpr absl::string_view kKey = "tokenizer.ggml.model";
  const std::string* model = metadata.GetString(kKey);
  if (model == nullptr) {
    return absl::DataLossError(absl::StrCat(kKey, ": is missing"));
  }
  if (*model != "gpt2") {
    return absl::UnimplementedError(absl::StrCat(
        kKey, ": \"", Printable(*model), "\" is not supported; expected \"gpt2\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufPreTokenizer> ReadPreTokenizer(const GgufMetadata& metadata) {
  const std::string* name = metadata.GetString("tokenizer.ggml.pre");
  if (name == nullptr) {
    return absl::UnimplementedError(
        "tokenizer.ggml.pre: is missing, so how to cut a text is not known");
  }
  return FindGgufPreTokenizer(*name);
}

}  // namespace

absl::StatusOr<GgufVocabulary> GgufVocabulary::Read(const GgufMetadata& metadata) {
  LOWMEM_RETURN_IF_ERROR(CheckModel(metadata));
  LOWMEM_ASSIGN_OR_RETURN(GgufPreTokenizer pre, ReadPreTokenizer(metadata));
  const GgufValue* tokens = metadata.Find(kGgufTokensKey);
  if (tokens == nullptr || tokens->num_elements > limits::kVocabSize) {
    return absl::DataLossError(absl::StrCat(
        kGgufTokensKey, ": is missing or too long; expected at most ",
        limits::kVocabSize, " tokens"));
  }
  GgufVocabulary result;
  LOWMEM_ASSIGN_OR_RETURN(result.types, ReadTypes(metadata, tokens->num_elements));

  struct Named {
    const char* key;
    std::optional<GgufNamedToken>* token;
  };
  std::optional<GgufNamedToken> end_of_turn;
  std::optional<GgufNamedToken> end_of_message;
  const Named named[] = {
      {"tokenizer.ggml.bos_token_id", &result.bos},
      {"tokenizer.ggml.eos_token_id", &result.eos},
      {"tokenizer.ggml.unknown_token_id", &result.unknown},
      {"tokenizer.ggml.padding_token_id", &result.padding},
      {"tokenizer.ggml.eot_token_id", &end_of_turn},
      {"tokenizer.ggml.eom_token_id", &end_of_message},
  };
  for (const Named& entry : named) {
    LOWMEM_ASSIGN_OR_RETURN(*entry.token,
                            ReadNamedId(metadata, entry.key, result.types));
  }
  for (const auto* token : {&result.eos, &end_of_turn, &end_of_message}) {
    if (token->has_value()) AddOnce((*token)->id, result.eos_ids);
  }

  std::vector<int32_t> end_ids;
  LOWMEM_RETURN_IF_ERROR(result.ForEachToken(
      metadata, [&](int32_t id, absl::string_view text) {
        for (const Named& entry : named) {
          if (entry.token->has_value() && (*entry.token)->id == id) {
            (*entry.token)->text = std::string(text);
          }
        }
        const GgufTokenType type = result.types[id];
        if (type == GgufTokenType::kNormal || type == GgufTokenType::kByte) {
          return absl::OkStatus();
        }
        if (result.added_tokens.size() == limits::kNumAddedTokens) {
          return absl::DataLossError(absl::StrCat(
              kGgufTokensKey, ": too many that are not normal; expected at most ",
              limits::kNumAddedTokens));
        }
        AddedToken token;
        token.content = std::string(text);
        token.id = id;
        token.special = type != GgufTokenType::kUserDefined;
        result.added_tokens.push_back(std::move(token));
        if (type == GgufTokenType::kControl && IsEndName(text)) {
          end_ids.push_back(id);
        }
        return absl::OkStatus();
      }));
  DropEndOfHarmonyMessage(result.added_tokens, end_ids);
  for (const int32_t id : end_ids) AddOnce(id, result.eos_ids);

  result.adds_bos = metadata.GetBool("tokenizer.ggml.add_bos_token")
                        .value_or(pre.adds_bos && result.bos.has_value());
  const bool adds_eos =
      metadata.GetBool("tokenizer.ggml.add_eos_token").value_or(false);
  if ((result.adds_bos && !result.bos.has_value()) ||
      (adds_eos && !result.eos.has_value())) {
    return absl::DataLossError(
        "tokenizer.ggml.add_bos_token or add_eos_token is set, but the token's id is "
        "missing");
  }
  result.model = MakeModel(pre.ignore_merges);
  result.normalizer = std::move(pre.normalizer);
  result.pre_tokenizer = std::move(pre.pre_tokenizer);
  result.post_processor =
      MakePostProcessor(result.adds_bos ? &*result.bos : nullptr,
                        adds_eos ? &*result.eos : nullptr);
  result.decoder = Object({{"type", JsonValue::String("ByteLevel")},
                           {"add_prefix_space", JsonValue::Bool(false)},
                           {"trim_offsets", JsonValue::Bool(false)},
                           {"use_regex", JsonValue::Bool(false)}});
  return result;
}

absl::Status GgufVocabulary::ForEachToken(
    const GgufMetadata& metadata,
    absl::FunctionRef<absl::Status(int32_t, absl::string_view)> visit) const {
  return metadata.ForEachString(
      kGgufTokensKey, [&](uint64_t idx, absl::string_view text) {
        if (idx >= types.size() || types[idx] == GgufTokenType::kUnused) {
          return absl::OkStatus();
        }
        return visit(static_cast<int32_t>(idx), text);
      });
}

}  // namespace lowmem
