// SPDX-License-Identifier: Apache-2.0
// LoadTokenizerFromFolder: tokenizer.json beside tokenizer_config.json.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/text/added_token_json.h"
#include "engine/text/json_settings.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_builder.h"
#include "engine/text/tokenizer_config.h"
#include "engine/text/tokenizer_json.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"
#include "storage/file.h"

namespace lowmem {
namespace {

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenAtMost(
    const std::string& path, uint64_t max_bytes) {
  LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file,
                          OpenFile(path));
  if (file->size_bytes() > max_bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": too large; expected at most ", max_bytes,
                     " bytes, got ", file->size_bytes()));
  }
  return file;
}

// `read` applied to the whole of `file`, with its path in front of an error
// that does not have it yet.
template <typename Result>
absl::StatusOr<Result> ReadFrom(const RandomAccessFile& file,
                                absl::StatusOr<Result> (*read)(ByteStream&)) {
  const std::unique_ptr<ByteStream> stream =
      NewFileStream(file, 0, file.size_bytes());
  absl::StatusOr<Result> result = read(*stream);
  if (!result.ok()) return InFile(result.status(), file.path());
  return result;
}

// Tokens of the configuration that tokenizer.json does not have. Those that it
// has stay as it states them.
absl::Status AddConfigTokens(std::vector<AddedToken> tokens,
                             TokenizerParts& parts) {
  std::vector<AddedToken> missing;
  for (AddedToken& token : tokens) {
    if (parts.added_tokens.Find(token.content) == nullptr) {
      missing.push_back(std::move(token));
    }
  }
  return InContext(
      AddTokens(std::move(missing), parts.vocabulary, parts.added_tokens),
      "\"added_tokens_decoder\"");
}

std::optional<int32_t> FindId(const TokenizerParts& parts,
                              const std::optional<std::string>& content) {
  if (!content.has_value()) return std::nullopt;
  const AddedToken* token = parts.added_tokens.Find(*content);
  return token != nullptr ? token->id : parts.vocabulary.Find(*content);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromFolder(
    const std::string& folder) {
  const std::string prefix =
      absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/");
  LOWMEM_ASSIGN_OR_RETURN(const auto json_file,
                          OpenAtMost(absl::StrCat(prefix, "tokenizer.json"),
                                     limits::kTokenizerJsonBytes));
  LOWMEM_ASSIGN_OR_RETURN(TokenizerParts parts,
                          ReadFrom(*json_file, ReadTokenizerJson));

  const auto config_file =
      OpenAtMost(absl::StrCat(prefix, "tokenizer_config.json"),
                 limits::kTokenizerConfigBytes);
  if (config_file.ok()) {
    LOWMEM_ASSIGN_OR_RETURN(TokenizerConfig config,
                            ReadFrom(**config_file, ReadTokenizerConfig));
    LOWMEM_RETURN_IF_ERROR(
        InContext(AddConfigTokens(std::move(config.added_tokens), parts),
                  (*config_file)->path()));
    parts.bos_id = FindId(parts, config.bos_token);
    if (const auto eos_id = FindId(parts, config.eos_token);
        eos_id.has_value()) {
      parts.eos_ids.push_back(*eos_id);
    }
  } else if (!absl::IsNotFound(config_file.status())) {
    return config_file.status();
  }

  auto tokenizer = BuildTokenizer(std::move(parts));
  if (!tokenizer.ok()) return InFile(tokenizer.status(), json_file->path());
  return tokenizer;
}

}  // namespace lowmem
