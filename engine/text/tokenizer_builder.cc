// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer_builder.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/byte_bpe_tokenizer.h"
#include "engine/text/json_settings.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::Status Unsupported(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("model: ", what, " is not supported"));
}

absl::Status CheckNoAffix(const JsonValue& model, const char* key) {
  LOWMEM_ASSIGN_OR_RETURN(const std::string affix, GetString(model, key, ""));
  if (affix.empty()) return absl::OkStatus();
  return Unsupported(absl::StrCat(key, " \"", Printable(affix), "\""));
}

absl::Status CheckNoDropout(const JsonValue& model) {
  const JsonValue* dropout = model.Find("dropout");
  if (dropout == nullptr || dropout->is_null() || dropout->AsDouble() == 0.0) {
    return absl::OkStatus();
  }
  return Unsupported("dropout");
}

// Whether some byte has no piece, so that the unknown token can come up.
bool LacksBytes(const Vocabulary& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    std::string spelling;
    AppendInAlphabet(absl::string_view(&c, 1), spelling);
    if (!vocabulary.Find(spelling).has_value()) return true;
  }
  return false;
}

absl::StatusOr<BpeOptions> ReadBpeOptions(const JsonValue& model,
                                          const Vocabulary& vocabulary) {
  LOWMEM_RETURN_IF_ERROR(CheckNoAffix(model, "continuing_subword_prefix"));
  LOWMEM_RETURN_IF_ERROR(CheckNoAffix(model, "end_of_word_suffix"));
  LOWMEM_RETURN_IF_ERROR(CheckNoDropout(model));
  LOWMEM_ASSIGN_OR_RETURN(const bool byte_fallback,
                          GetBool(model, "byte_fallback", false));
  if (byte_fallback) return Unsupported("byte_fallback");
  BpeOptions options;
  LOWMEM_ASSIGN_OR_RETURN(options.ignore_merges,
                          GetBool(model, "ignore_merges", false));
  LOWMEM_ASSIGN_OR_RETURN(options.fuse_unknown,
                          GetBool(model, "fuse_unk", false));
  const JsonValue* unknown = model.Find("unk_token");
  if (unknown != nullptr && !unknown->is_null()) {
    LOWMEM_ASSIGN_OR_RETURN(const std::string text,
                            GetString(model, "unk_token"));
    options.unknown_id = vocabulary.Find(text);
    if (!options.unknown_id.has_value() && LacksBytes(vocabulary)) {
      return absl::DataLossError(absl::StrCat("model: unk_token \"",
                                              Printable(text),
                                              "\" is not in the vocabulary"));
    }
  }
  return options;
}

// Decoding is that of ByteLevel; a Sequence may hold it and Fuse, which joins
// what is joined anyway.
absl::Status CheckDecoder(const JsonValue& spec, bool& has_byte_level) {
  if (spec.is_null()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(const absl::string_view type, TypeOf(spec));
  if (type == "ByteLevel") {
    has_byte_level = true;
    return absl::OkStatus();
  }
  if (type == "Fuse") return absl::OkStatus();
  if (type == "Sequence") {
    const JsonValue* list = spec.Find("decoders");
    if (list == nullptr || !list->is_array()) {
      return absl::DataLossError("\"decoders\" is missing; expected a list");
    }
    for (const JsonValue& step : list->items()) {
      LOWMEM_RETURN_IF_ERROR(CheckDecoder(step, has_byte_level));
    }
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("\"", Printable(type), "\" is not supported"));
}

absl::Status CheckIds(const ByteBpeTokenizer& tokenizer,
                      const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) {
    if (!tokenizer.HasToken(id)) {
      return absl::DataLossError(
          absl::StrCat("post_processor: id ", id, " has no token"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AddMerge(const Vocabulary& vocabulary, absl::string_view left,
                      absl::string_view right, MergeTable& merges) {
  const std::string joined = absl::StrCat(left, right);
  MergeTable::Merge merge;
  for (const auto& [text, id] :
       {std::pair<absl::string_view, int32_t*>{left, &merge.left},
        {right, &merge.right},
        {joined, &merge.result}}) {
    const std::optional<int32_t> found = vocabulary.Find(text);
    if (!found.has_value()) {
      return absl::DataLossError(absl::StrCat(
          "merge of \"", Printable(left), "\" and \"", Printable(right),
          "\": \"", Printable(text), "\" is not in the vocabulary"));
    }
    *id = *found;
  }
  return merges.Add(merge);
}

absl::StatusOr<std::pair<absl::string_view, absl::string_view>> SplitMergeLine(
    absl::string_view line) {
  const size_t space = line.find(' ');
  if (space == line.npos || line.find(' ', space + 1) != line.npos) {
    return absl::DataLossError(
        absl::StrCat("merge \"", Printable(line),
                     "\" is malformed; expected two pieces and one space"));
  }
  return std::make_pair(line.substr(0, space), line.substr(space + 1));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> BuildTokenizer(
    TokenizerParts parts) {
  LOWMEM_ASSIGN_OR_RETURN(const std::string type,
                          GetString(parts.model, "type", "BPE"));
  if (type != "BPE") {
    return Unsupported(absl::StrCat("type \"", Printable(type), "\""));
  }
  LOWMEM_ASSIGN_OR_RETURN(const BpeOptions options,
                          ReadBpeOptions(parts.model, parts.vocabulary));
  LOWMEM_ASSIGN_OR_RETURN(Normalizer normalizer,
                          Normalizer::FromJson(parts.normalizer));
  LOWMEM_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer,
                          PreTokenizer::FromJson(parts.pre_tokenizer));
  LOWMEM_ASSIGN_OR_RETURN(PostProcessor post_processor,
                          PostProcessor::FromJson(parts.post_processor));
  bool has_byte_level = false;
  LOWMEM_RETURN_IF_ERROR(
      InContext(CheckDecoder(parts.decoder, has_byte_level), "decoder"));
  if (!has_byte_level) {
    return absl::UnimplementedError(
        "decoder: only ByteLevel is supported, and there is none");
  }
  LOWMEM_RETURN_IF_ERROR(
      InContext(parts.added_tokens.Finish(normalizer), "added_tokens"));
  if (!post_processor.prefix.empty()) parts.bos_id = post_processor.prefix[0];
  auto tokenizer = std::make_unique<ByteBpeTokenizer>(ByteBpeTokenizer::Stages{
      BpeModel(std::move(parts.vocabulary), std::move(parts.merges), options),
      std::move(normalizer), std::move(pre_tokenizer),
      std::move(post_processor), std::move(parts.added_tokens), parts.bos_id,
      std::move(parts.eos_ids)});
  LOWMEM_RETURN_IF_ERROR(
      CheckIds(*tokenizer, tokenizer->stages().post_processor.prefix));
  LOWMEM_RETURN_IF_ERROR(
      CheckIds(*tokenizer, tokenizer->stages().post_processor.suffix));
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

}  // namespace lowmem
