// SPDX-License-Identifier: Apache-2.0
#include "engine/text/early_merges.h"

#include <cstdint>
#include <cstring>

#include "engine/text/tokenizer_builder.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::string_view TakePiece(absl::string_view& rest) {
  uint32_t length;
  std::memcpy(&length, rest.data(), sizeof(length));
  const absl::string_view piece = rest.substr(sizeof(length), length);
  rest.remove_prefix(sizeof(length) + length);
  return piece;
}

}  // namespace

void EarlyMerges::Add(absl::string_view left, absl::string_view right) {
  for (const absl::string_view piece : {left, right}) {
    const uint32_t length = static_cast<uint32_t>(piece.size());
    text_.append(reinterpret_cast<const char*>(&length), sizeof(length));
    text_.append(piece.data(), piece.size());
  }
}

absl::Status EarlyMerges::MoveTo(const Vocabulary& vocabulary,
                                 MergeTable& merges) {
  absl::string_view rest = text_;
  while (!rest.empty()) {
    const absl::string_view left = TakePiece(rest);
    const absl::string_view right = TakePiece(rest);
    LOWMEM_RETURN_IF_ERROR(AddMerge(vocabulary, left, right, merges));
  }
  text_ = std::string();
  return absl::OkStatus();
}

}  // namespace lowmem
