// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf_vocabulary.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/gguf_end_tokens.h"
#include "engine/text/gguf_pre_tokenizers.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

JsonValue Number(int64_t value) {
  return JsonValue::Number(absl::StrCat(value));
}

JsonValue Object(std::vector<JsonValue::Member> members) {
  return JsonValue::Object(std::move(members));
}

absl::StatusOr<std::vector<GgufTokenType>> ReadTypes(
    const GgufMetadata& metadata, uint64_t num_tokens) {
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
              kKey, ": entry ", idx, " is ", value,
              "; expected 1 to 6 for each of ", num_tokens, " tokens"));
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

absl::Status CheckModel(const GgufMetadata& metadata) {
  constexpr absl::string_view kKey = "tokenizer.ggml.model";
  const std::string* model = metadata.GetString(kKey);
  if (model == nullptr) {
    return absl::DataLossError(absl::StrCat(kKey, ": is missing"));
  }
  if (*model != "gpt2") {
    return absl::UnimplementedError(
        absl::StrCat(kKey, ": \"", Printable(*model),
                     "\" is not supported; expected \"gpt2\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufPreTokenizer> ReadPreTokenizer(
    const GgufMetadata& metadata) {
  const std::string* name = metadata.GetString("tokenizer.ggml.pre");
  if (name == nullptr) {
    return absl::UnimplementedError(
        "tokenizer.ggml.pre: is missing, so how to cut a text is not known");
  }
  return FindGgufPreTokenizer(*name);
}

}  // namespace

absl::StatusOr<GgufVocabulary> GgufVocabulary::Read(
    const GgufMetadata& metadata) {
  LOWMEM_RETURN_IF_ERROR(CheckModel(metadata));
  LOWMEM_ASSIGN_OR_RETURN(GgufPreTokenizer pre, ReadPreTokenizer(metadata));
  const GgufValue* tokens = metadata.Find(kGgufTokensKey);
  if (tokens == nullptr || tokens->num_elements > limits::kVocabSize) {
    return absl::DataLossError(absl::StrCat(
        kGgufTokensKey, ": is missing or too long; expected at most ",
        limits::kVocabSize, " tokens"));
  }
  GgufVocabulary result;
  LOWMEM_ASSIGN_OR_RETURN(result.types,
                          ReadTypes(metadata, tokens->num_elements));
  LOWMEM_RETURN_IF_ERROR(result.ReadNamedTokens(metadata));
  LOWMEM_RETURN_IF_ERROR(result.ReadAddedTokens(metadata));
  LOWMEM_RETURN_IF_ERROR(result.SetPostProcessor(metadata, pre.adds_bos));
  result.model = MakeModel(pre.ignore_merges);
  result.normalizer = std::move(pre.normalizer);
  result.pre_tokenizer = std::move(pre.pre_tokenizer);
  result.decoder = Object({{"type", JsonValue::String("ByteLevel")},
                           {"add_prefix_space", JsonValue::Bool(false)},
                           {"trim_offsets", JsonValue::Bool(false)},
                           {"use_regex", JsonValue::Bool(false)}});
  return result;
}

absl::Status GgufVocabulary::ReadNamedTokens(const GgufMetadata& metadata) {
  std::optional<GgufNamedToken> end_of_turn;
  std::optional<GgufNamedToken> end_of_message;
  const std::pair<const char*, std::optional<GgufNamedToken>*> named[] = {
      {"tokenizer.ggml.bos_token_id", &bos},
      {"tokenizer.ggml.eos_token_id", &eos},
      {"tokenizer.ggml.unknown_token_id", &unknown},
      {"tokenizer.ggml.padding_token_id", &padding},
      {"tokenizer.ggml.eot_token_id", &end_of_turn},
      {"tokenizer.ggml.eom_token_id", &end_of_message},
  };
  for (const auto& [key, token] : named) {
    LOWMEM_ASSIGN_OR_RETURN(*token, ReadNamedId(metadata, key, types));
  }
  for (const auto* token : {&eos, &end_of_turn, &end_of_message}) {
    if (!token->has_value()) continue;
    const int32_t id = (*token)->id;
    if (std::find(eos_ids.begin(), eos_ids.end(), id) == eos_ids.end()) {
      eos_ids.push_back(id);
    }
  }
  return absl::OkStatus();
}

absl::Status GgufVocabulary::ReadAddedTokens(const GgufMetadata& metadata) {
  LOWMEM_RETURN_IF_ERROR(ForEachToken(metadata, [&](int32_t id,
                                                    absl::string_view text) {
    for (std::optional<GgufNamedToken>* token :
         {&bos, &eos, &unknown, &padding}) {
      if (token->has_value() && (*token)->id == id) {
        (*token)->text = std::string(text);
      }
    }
    const GgufTokenType type = types[id];
    if (type == GgufTokenType::kNormal || type == GgufTokenType::kByte) {
      return absl::OkStatus();
    }
    if (added_tokens.size() == limits::kNumAddedTokens) {
      return absl::DataLossError(absl::StrCat(
          kGgufTokensKey, ": too many that are not normal; expected at most ",
          limits::kNumAddedTokens));
    }
    AddedToken token;
    token.content = std::string(text);
    token.id = id;
    token.special = type != GgufTokenType::kUserDefined;
    added_tokens.push_back(std::move(token));
    return absl::OkStatus();
  }));
  std::vector<GgufControlToken> control_tokens;
  for (const AddedToken& token : added_tokens) {
    if (types[token.id] == GgufTokenType::kControl) {
      control_tokens.push_back({token.id, token.content});
    }
  }
  AppendWellKnownEndTokens(control_tokens, eos_ids);
  return absl::OkStatus();
}

absl::Status GgufVocabulary::SetPostProcessor(const GgufMetadata& metadata,
                                              bool adds_bos_by_default) {
  const bool adds_bos = metadata.GetBool("tokenizer.ggml.add_bos_token")
                            .value_or(adds_bos_by_default && bos.has_value());
  const bool adds_eos =
      metadata.GetBool("tokenizer.ggml.add_eos_token").value_or(false);
  if ((adds_bos && !bos.has_value()) || (adds_eos && !eos.has_value())) {
    return absl::DataLossError(
        "tokenizer.ggml.add_bos_token or add_eos_token is set, but the token's "
        "id is missing");
  }
  post_processor =
      MakePostProcessor(adds_bos ? &*bos : nullptr, adds_eos ? &*eos : nullptr);
  return absl::OkStatus();
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
