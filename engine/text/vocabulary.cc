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

// Ids may leave gaps (published vocabularies leave a few hundred), but a table
// by id must stay a small multiple of what the file holds.
constexpr uint64_t kMaxGaps = 65'536;

constexpr size_t kBlockBytes = 64u << 10;
// The end of a block is left unused when the next piece does not fit, at worst
// half of it: the number of the block must fit 16 bits all the same.
static_assert(limits::kTokenizerJsonBytes / (kBlockBytes / 2) +
                  limits::kVocabSize * 5 / (kBlockBytes / 2) <
              0xFFFF);
static_assert(limits::kVocabSize - 2 <= CompactIndex::kMaxValue);

}  // namespace

absl::string_view Vocabulary::TextAt(Place place) const {
  const char* at = blocks_[place >> 16].get() + (place & 0xFFFF);
  uint32_t length = static_cast<uint8_t>(*at++);
  if (length == kLongLength) {
    std::memcpy(&length, at, sizeof(length));
    at += sizeof(length);
  }
  return absl::string_view(at, length);
}

absl::Status Vocabulary::Add(absl::string_view text, uint64_t id) {
  if (id >= limits::kVocabSize - 1) {
    return absl::DataLossError(absl::StrCat(
        "\"", Printable(text), "\": id out of range; expected below ",
        limits::kVocabSize - 1, ", got ", id));
  }
  if (added_.size() == limits::kVocabSize ||
      text.size() > limits::kTokenizerJsonBytes - text_bytes_) {
    return absl::DataLossError(absl::StrCat(
        "vocabulary is too large; expected at most ", limits::kVocabSize,
        " pieces and ", limits::kTokenizerJsonBytes, " bytes of text"));
  }
  text_bytes_ += text.size();
  const uint32_t length = static_cast<uint32_t>(text.size());
  const bool is_long = length >= kLongLength;
  const size_t entry_bytes = (is_long ? 1 + sizeof(length) : 1) + text.size();
  if (entry_bytes > block_size_bytes_ - block_used_bytes_) {
    block_size_bytes_ = std::max(kBlockBytes, entry_bytes);
    block_used_bytes_ = 0;
    blocks_.push_back(
        std::make_unique_for_overwrite<char[]>(block_size_bytes_));
  }
  added_.push_back(
      {static_cast<uint32_t>(id),
       static_cast<Place>((blocks_.size() - 1) << 16 | block_used_bytes_)});
  char* at = blocks_.back().get() + block_used_bytes_;
  *at++ = static_cast<char>(is_long ? kLongLength : length);
  if (is_long) {
    std::memcpy(at, &length, sizeof(length));
    at += sizeof(length);
  }
  std::copy(text.begin(), text.end(), at);
  block_used_bytes_ += entry_bytes;
  return absl::OkStatus();
}

absl::Status Vocabulary::Finish() {
  uint64_t id_limit = 0;
  for (size_t i = 0; i < added_.size(); ++i) {
    id_limit = std::max<uint64_t>(id_limit, uint64_t{added_[i].id} + 1);
  }
  if (id_limit > 2 * added_.size() + kMaxGaps) {
    return absl::DataLossError(absl::StrCat(
        "id out of range; expected ids without large gaps, got id ",
        id_limit - 1, " among ", added_.size(), " pieces"));
  }
  place_by_id_.assign(id_limit, kNoPiece);
  id_by_text_.Reset(added_.size());
  for (size_t i = 0; i < added_.size(); ++i) {
    const auto [id, place] = added_[i];
    const absl::string_view text = TextAt(place);
    if (place_by_id_[id] != kNoPiece) {
      return absl::DataLossError(
          absl::StrCat("id ", id, " stands for two pieces: \"",
                       Printable(Text(static_cast<int32_t>(id))), "\" and \"",
                       Printable(text), "\""));
    }
    place_by_id_[id] = place;
    const bool seen = id_by_text_.InsertOrReplace(
        absl::HashOf(text), id,
        [&](uint32_t other) { return TextAt(place_by_id_[other]) == text; });
    if (seen) {
      return absl::DataLossError(
          absl::StrCat("duplicate piece \"", Printable(text), "\""));
    }
  }
  num_pieces_ = static_cast<uint32_t>(added_.size());
  added_.Clear();
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::Find(absl::string_view text) const {
  const std::optional<uint32_t> id =
      id_by_text_.Find(absl::HashOf(text), [&](uint32_t candidate) {
        return TextAt(place_by_id_[candidate]) == text;
      });
  if (!id.has_value()) return std::nullopt;
  return static_cast<int32_t>(*id);
}

}  // namespace lowmem
