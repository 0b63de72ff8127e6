// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding over bytes: a piece of text starts as one symbol a byte,
// and the neighbouring pair of lowest rank (the leftmost of equals) is joined
// until no pair has a rank. Source: Hugging Face tokenizers, models/bpe. Left
// out: dropout, affixes of subwords, byte fallback and characters as first
// symbols (SentencePiece style).

#ifndef LOWMEM_ENGINE_TEXT_BPE_MODEL_H_
#define LOWMEM_ENGINE_TEXT_BPE_MODEL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/text/chunked_vector.h"
#include "engine/text/compact_index.h"
#include "engine/text/id_output.h"
#include "engine/text/vocabulary.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// Which pairs of ids join, in order of rank.
// Thread safety: const methods are thread-safe.
// Memory: 17 bytes a merge.
class MergeTable {
 public:
  struct Merge {
    int32_t left;
    int32_t right;
    int32_t result;
  };

  // Errors: kDataLoss beyond limits::kNumMerges.
  absl::Status Add(const Merge& merge);
  // Of a pair that came twice the later rank counts, as in the reference.
  void Finish();

  // The rank of the pair. Usable after Finish.
  std::optional<uint32_t> Find(int32_t left, int32_t right) const;
  const Merge& operator[](uint32_t rank) const { return merges_[rank]; }
  size_t size() const { return merges_.size(); }

 private:
  ChunkedVector<Merge> merges_;
  CompactIndex rank_by_pair_;
};

struct BpeOptions {
  // A piece that is in the vocabulary as a whole is taken without merging.
  bool ignore_merges = false;
  // Stands for bytes that have no piece of their own; without it they are
  // dropped before merging, so that their neighbours become neighbours.
  std::optional<int32_t> unknown_id;
  // A run of such bytes is one unknown token.
  bool fuse_unknown = false;
};

// Thread safety: const methods are thread-safe.
class BpeModel {
 public:
  BpeModel(Vocabulary vocabulary, MergeTable merges, const BpeOptions& options);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  const MergeTable& merges() const { return merges_; }
  const BpeOptions& options() const { return options_; }
  std::optional<int32_t> IdOfByte(uint8_t byte) const {
    if (id_of_byte_[byte] < 0) return std::nullopt;
    return id_of_byte_[byte];
  }
  // As many ids as a piece of `num_bytes` has at least.
  size_t LeastIds(size_t num_bytes) const;

 private:
  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<int32_t, 256> id_of_byte_;  // -1 where there is none
  bool has_every_byte_ = true;
  size_t longest_piece_bytes_ = 1;  // as spelt, which is no shorter
};

// Room for encoding pieces one after the other: n log n in the length of a
// piece. Thread safety: one thread at a time. Lifetime: the model must outlive
// it. Memory: 20 bytes for each byte of the longest piece so far.
class BpeEncoder {
 public:
  // Lifetime: `cancel` (nullptr for never) and `account` (nullptr for none),
  // which the room is charged to, must outlive it.
  explicit BpeEncoder(const BpeModel& model,
                      const std::atomic<bool>* cancel = nullptr,
                      MemoryAccount* account = nullptr)
      : model_(model), cancel_(cancel), account_(account) {}

  // Appends the ids of `piece` (bytes, fewer than 2^32). Once `*cancel` is true
  // it may end early, with ids that are of no use. Errors: kOutOfRange when
  // there is no room for so many ids, where their least number says so before
  // any work; kResourceExhausted.
  absl::Status Append(absl::string_view piece, IdOutput& ids);

  // Pairs looked at so far: a measure of work that needs no clock.
  uint64_t num_steps() const { return num_steps_; }

 private:
  struct Symbol {
    int32_t id;
    uint32_t prev;
    uint32_t next;
  };
  // A pair waiting to be joined; stale once either symbol has changed.
  struct Candidate {
    uint32_t rank;
    uint32_t pos;  // of the left symbol
    bool operator==(const Candidate& other) const = default;
    // Heap order: the lowest rank, then the leftmost, is on top.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : pos > other.pos;
    }
  };

  absl::Status MakeRoom(size_t num_bytes);
  void Start(absl::string_view piece);
  void AddSymbol(int32_t id);
  void Push(uint32_t pos);
  // A symbol of the pair has changed.
  bool IsStale(const Candidate& candidate) const;
  void DropStale();
  void MergeAll();

  bool IsCancelled() const { return cancel_ != nullptr && cancel_->load(); }

  const BpeModel& model_;
  const std::atomic<bool>* const cancel_;
  MemoryAccount* const account_;
  MemoryCharge charge_;
  std::string spelling_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  uint64_t num_steps_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_BPE_MODEL_H_
