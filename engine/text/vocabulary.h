// SPDX-License-Identifier: Apache-2.0
// The pieces of a model's vocabulary: text to id and back. The text lies in a
// few large blocks, because a map of strings costs several times the text.
//
// Filled with Add in any order of ids, then proved and indexed by Finish.

#ifndef LOWMEM_ENGINE_TEXT_VOCABULARY_H_
#define LOWMEM_ENGINE_TEXT_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/text/chunked_vector.h"
#include "engine/text/compact_index.h"

namespace lowmem {

// Thread safety: const methods are thread-safe.
// Memory: the text, and about 11 bytes a piece; 8 more until Finish.
class Vocabulary {
 public:
  // Errors: kDataLoss for an id or an amount of text beyond what is accepted.
  absl::Status Add(absl::string_view text, uint64_t id);

  // Errors: kDataLoss for a text or an id that came twice, or ids so far apart
  // that a table of them would be much larger than the vocabulary.
  absl::Status Finish();

  // Usable after Finish.
  std::optional<int32_t> Find(absl::string_view text) const;
  bool Has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < place_by_id_.size() &&
           place_by_id_[id] != kNoPiece;
  }
  // REQUIRES: Has(id). The view lives as long as the vocabulary.
  absl::string_view Text(int32_t id) const { return TextAt(place_by_id_[id]); }

  uint32_t num_pieces() const { return num_pieces_; }
  // One more than the largest id.
  uint32_t id_limit() const {
    return static_cast<uint32_t>(place_by_id_.size());
  }

 private:
  // Where a piece lies: the block in the upper half, the byte in it in the
  // lower.
  using Place = uint32_t;
  static constexpr Place kNoPiece = 0xFFFFFFFF;
  struct Added {
    uint32_t id;
    Place place;
  };

  absl::string_view TextAt(Place place) const;

  // A piece is its length (one byte, or 255 and four more) and its text, and
  // lies in one block. Blocks are 64 KiB, or as long as the one piece that is
  // longer.
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_used_bytes_ = 0;
  size_t block_size_bytes_ = 0;
  uint64_t text_bytes_ = 0;
  ChunkedVector<Added> added_;  // until Finish
  std::vector<Place> place_by_id_;
  CompactIndex id_by_text_;
  uint32_t num_pieces_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_VOCABULARY_H_
