// SPDX-License-Identifier: Apache-2.0
#include "engine/text/tokenizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/utf8_text.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Appends the bytes of one token.
absl::Status AppendToken(const Tokenizer& tokenizer, int32_t id,
                         bool skip_special, std::string& bytes) {
  if (id < 0 || static_cast<uint32_t>(id) >= tokenizer.vocab_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("id ", id, " is not in the vocabulary; expected 0 to ",
                     int64_t{tokenizer.vocab_size()} - 1));
  }
  if (!skip_special || !tokenizer.IsSpecial(id))
    bytes += tokenizer.TokenBytes(id);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const int32_t> ids,
                                              bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    LOWMEM_RETURN_IF_ERROR(AppendToken(*this, id, skip_special, bytes));
  }
  std::string text;
  text.reserve(bytes.size());
  AppendAsText(bytes, /*at_end=*/true, text);
  return text;
}

absl::StatusOr<std::string> StreamingDetokenizer::Add(int32_t id) {
  LOWMEM_RETURN_IF_ERROR(AppendToken(tokenizer_, id, skip_special_, pending_));
  std::string text;
  pending_.erase(0, AppendAsText(pending_, /*at_end=*/false, text));
  return text;
}

std::string StreamingDetokenizer::Finish() {
  std::string text;
  AppendAsText(pending_, /*at_end=*/true, text);
  pending_.clear();
  return text;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const Checkpoint& checkpoint) {
  if (const GgufMetadata* metadata = checkpoint.gguf_metadata()) {
    return LoadTokenizerFromGguf(*metadata, checkpoint.path());
  }
  // The folder is what stands before the file's name.
  std::string folder = checkpoint.SidecarPath("tokenizer.json");
  folder.resize(folder.size() - absl::string_view("tokenizer.json").size());
  return LoadTokenizerFromFolder(folder.empty() ? "." : folder);
}

}  // namespace lowmem
