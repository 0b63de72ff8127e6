// SPDX-License-Identifier: Apache-2.0
#include "engine/text/vocabulary.h"

#include <algorithm>
#include <cstring>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"

namespace lowmem {
namespace {

constexpr uint8_t kLongLength = 255;

// Ids may leave gaps (published vocabularies leave a few hundred), but a table by
// id must stay a small multiple of what the file holds.
constexpr uint64_t kMaxGaps = 65'536;

static_assert(limits::kVocabSize - 2 <= CompactIndex::kMaxValue);

}  // namespace

absl::string_view Vocabulary::TextAt(uint32_t ofs) const {
  const char* at = arena_.data() + ofs;
  uint32_t length = static_cast<uint8_t>(*at++);
  if (length == kLongLength) {
    std::memcpy(&length, at, sizeof(length));
    at += sizeof(length);
  }
  return absl::string_view(at, length);
}

absl::Status Vocabulary::Add(absl::string_view text, uint64_t id) {
  if (id >= limits::kVocabSize - 1) {
    return absl::DataLossError(
        absl::StrCat("\"", Printable(text), "\": id out of range; expected below ",
                     limits::kVocabSize - 1, ", got ", id));
  }
  if (text.size() > limits::kTokenizerJsonBytes - arena_.size()) {
    return absl::DataLossError(
        absl::StrCat("vocabulary text is too long; expected at most ",
                     limits::kTokenizerJsonBytes, " bytes"));
  }
  added_.emplace_back(static_cast<uint32_t>(id),
                      static_cast<uint32_t>(arena_.size()));
  if (text.size() < kLongLength) {
    arena_.push_back(static_cast<char>(text.size()));
  } else {
    const uint32_t length = static_cast<uint32_t>(text.size());
    arena_.push_back(static_cast<char>(kLongLength));
    arena_.append(reinterpret_cast<const char*>(&length), sizeof(length));
  }
  arena_.append(text.data(), text.size());
  return absl::OkStatus();
}

absl::Status Vocabulary::Finish() {
  uint64_t id_limit = 0;
  for (const auto& [id, ofs] : added_) {
    id_limit = std::max<uint64_t>(id_limit, uint64_t{id} + 1);
  }
  if (id_limit > 2 * added_.size() + kMaxGaps) {
    return absl::DataLossError(
        absl::StrCat("id out of range; expected ids without large gaps, got id ",
                     id_limit - 1, " among ", added_.size(), " pieces"));
  }
  arena_.shrink_to_fit();
  ofs_by_id_.assign(id_limit, kNoPiece);
  id_by_text_.Reset(added_.size());
  for (const auto& [id, ofs] : added_) {
    const absl::string_view text = TextAt(ofs);
    if (ofs_by_id_[id] != kNoPiece) {
      return absl::DataLossError(absl::StrCat(
          "id ", id, " stands for two pieces: \"", Printable(Text(id)),
          "\" and \"", Printable(text), "\""));
    }
    ofs_by_id_[id] = ofs;
    const bool seen = id_by_text_.InsertOrReplace(
        absl::HashOf(text), id,
        [&](uint32_t other) { return TextAt(ofs_by_id_[other]) == text; });
    if (seen) {
      return absl::DataLossError(
          absl::StrCat("duplicate piece \"", Printable(text), "\""));
    }
  }
  num_pieces_ = static_cast<uint32_t>(added_.size());
  added_ = std::vector<std::pair<uint32_t, uint32_t>>();
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::Find(absl::string_view text) const {
  const std::optional<uint32_t> id =
      id_by_text_.Find(absl::HashOf(text), [&](uint32_t candidate) {
        return TextAt(ofs_by_id_[candidate]) == text;
      });
  if (!id.has_value()) return std::nullopt;
  return static_cast<int32_t>(*id);
}

}  // namespace lowmem
