// SPDX-License-Identifier: Apache-2.0
// The pieces of a model's vocabulary: text to id and back. All text lies in one
// string, because a map of strings costs several times the text.
//
// Filled with Add in any order of ids, then proved and indexed by Finish.

#ifndef LOWMEM_ENGINE_TEXT_VOCABULARY_H_
#define LOWMEM_ENGINE_TEXT_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/text/compact_index.h"

namespace lowmem {

// Thread safety: const methods are thread-safe.
// Memory: the text, and about 11 bytes a piece; 8 more until Finish.
class Vocabulary {
 public:
  // Errors: kDataLoss for an id or an amount of text beyond what is accepted.
  absl::Status Add(absl::string_view text, uint64_t id);

  // Errors: kDataLoss for a text or an id that came twice, or ids so far apart that
  // a table of them would be much larger than the vocabulary.
  absl::Status Finish();

  // Usable after Finish.
  std::optional<int32_t> Find(absl::string_view text) const;
  bool Has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < ofs_by_id_.size() &&
           ofs_by_id_[id] != kNoPiece;
  }
  // REQUIRES: Has(id). The view lives as long as the vocabulary.
  absl::string_view Text(int32_t id) const { return TextAt(ofs_by_id_[id]); }

  uint32_t num_pieces() const { return num_pieces_; }
  // One more than the largest id.
  uint32_t id_limit() const { return static_cast<uint32_t>(ofs_by_id_.size()); }

 private:
  static constexpr uint32_t kNoPiece = 0xFFFFFFFF;

  absl::string_view TextAt(uint32_t ofs) const;

  // Each piece as its length (one byte, or 255 and four more) and its text.
  std::string arena_;
  std::vector<std::pair<uint32_t, uint32_t>> added_;  // id, offset; until Finish
  std::vector<uint32_t> ofs_by_id_;
  CompactIndex id_by_text_;
  uint32_t num_pieces_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_VOCABULARY_H_
