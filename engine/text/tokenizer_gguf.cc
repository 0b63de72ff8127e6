// SPDX-License-Identifier: Apache-2.0
// LoadTokenizerFromGguf: the tokenizer that the metadata of a GGUF file
// describe.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/gguf_vocabulary.h"
#include "engine/text/json_settings.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_builder.h"
#include "engine/text/utf8_text.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::StatusOr<TokenizerParts> ReadParts(const GgufMetadata& metadata) {
  LOWMEM_ASSIGN_OR_RETURN(GgufVocabulary source,
                          GgufVocabulary::Read(metadata));
  TokenizerParts parts;
  LOWMEM_RETURN_IF_ERROR(
      source.ForEachToken(metadata, [&](int32_t id, absl::string_view text) {
        if (FindInvalidUtf8(text).has_value()) {
          return absl::DataLossError(
              absl::StrCat("token ", id, " is not valid UTF-8"));
        }
        return parts.vocabulary.Add(text, static_cast<uint64_t>(id));
      }));
  LOWMEM_RETURN_IF_ERROR(InContext(parts.vocabulary.Finish(), kGgufTokensKey));
  LOWMEM_RETURN_IF_ERROR(metadata.ForEachString(
      kGgufMergesKey, [&](uint64_t, absl::string_view line) -> absl::Status {
        const auto pieces = SplitMergeLine(line);
        if (!pieces.ok()) return InContext(pieces.status(), kGgufMergesKey);
        return InContext(AddMerge(parts.vocabulary, pieces->first,
                                  pieces->second, parts.merges),
                         kGgufMergesKey);
      }));
  parts.merges.Finish();
  for (AddedToken& token : source.added_tokens) {
    LOWMEM_RETURN_IF_ERROR(
        InContext(parts.added_tokens.Add(std::move(token)), kGgufTokensKey));
  }
  parts.model = std::move(source.model);
  parts.normalizer = std::move(source.normalizer);
  parts.pre_tokenizer = std::move(source.pre_tokenizer);
  parts.post_processor = std::move(source.post_processor);
  parts.decoder = std::move(source.decoder);
  if (source.bos.has_value()) parts.bos_id = source.bos->id;
  parts.eos_ids = std::move(source.eos_ids);
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromGguf(
    const GgufMetadata& metadata, const std::string& path_for_messages) {
  absl::StatusOr<TokenizerParts> parts = ReadParts(metadata);
  if (!parts.ok()) return InFile(parts.status(), path_for_messages);
  auto tokenizer = BuildTokenizer(*std::move(parts));
  if (!tokenizer.ok()) return InFile(tokenizer.status(), path_for_messages);
  return tokenizer;
}

}  // namespace lowmem
