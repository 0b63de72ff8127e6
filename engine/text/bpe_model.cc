// SPDX-License-Identifier: Apache-2.0
#include "engine/text/bpe_model.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/text/byte_alphabet.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr uint32_t kNone = 0xFFFFFFFF;
constexpr uint32_t kStepsBetweenChecks = 1024;  // for cancellation
constexpr size_t kLongPieceBytes = 4096;
constexpr int32_t kGone = -1;  // id of a symbol that was joined to its left one

uint64_t HashOfPair(int32_t left, int32_t right) {
  return absl::HashOf(left, right);
}

}  // namespace

absl::Status MergeTable::Add(const Merge& merge) {
  static_assert(limits::kNumMerges - 2 <= CompactIndex::kMaxValue);
  if (merges_.size() >= limits::kNumMerges - 1) {
    return absl::DataLossError(absl::StrCat(
        "too many merges; expected fewer than ", limits::kNumMerges));
  }
  merges_.push_back(merge);
  return absl::OkStatus();
}

void MergeTable::Finish() {
  rank_by_pair_.Reset(merges_.size());
  for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
    const Merge& merge = merges_[rank];
    rank_by_pair_.InsertOrReplace(HashOfPair(merge.left, merge.right), rank,
                                  [&](uint32_t other) {
                                    return merges_[other].left == merge.left &&
                                           merges_[other].right == merge.right;
                                  });
  }
}

std::optional<uint32_t> MergeTable::Find(int32_t left, int32_t right) const {
  return rank_by_pair_.Find(HashOfPair(left, right), [&](uint32_t rank) {
    return merges_[rank].left == left && merges_[rank].right == right;
  });
}

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges,
                   const BpeOptions& options)
    : vocabulary_(std::move(vocabulary)),
      merges_(std::move(merges)),
      options_(options) {
  std::string spelling;
  for (int byte = 0; byte < 256; ++byte) {
    spelling.clear();
    const char c = static_cast<char>(byte);
    AppendInAlphabet(absl::string_view(&c, 1), spelling);
    id_of_byte_[byte] = vocabulary_.Find(spelling).value_or(-1);
    if (id_of_byte_[byte] < 0) has_every_byte_ = false;
  }
  const int32_t end = static_cast<int32_t>(vocabulary_.id_limit());
  for (int32_t id = 0; id < end; ++id) {
    if (!vocabulary_.Has(id)) continue;
    longest_piece_bytes_ =
        std::max(longest_piece_bytes_, vocabulary_.Text(id).size());
  }
}

size_t BpeModel::LeastIds(size_t num_bytes) const {
  // Bytes without a piece may be dropped or become one id together.
  return has_every_byte_ ? num_bytes / longest_piece_bytes_ : 0;
}

absl::Status BpeEncoder::Append(absl::string_view piece, IdOutput& ids) {
  if (model_.options().ignore_merges) {
    spelling_.clear();
    AppendInAlphabet(piece, spelling_);
    if (const auto id = model_.vocabulary().Find(spelling_); id.has_value()) {
      return ids.Append({&*id, 1});
    }
  }
  LOWMEM_RETURN_IF_ERROR(ids.CheckRoom(model_.LeastIds(piece.size())));
  LOWMEM_RETURN_IF_ERROR(MakeRoom(piece.size()));
  Start(piece);
  MergeAll();
  size_t num_ids = 0;
  for (const Symbol& symbol : symbols_) num_ids += symbol.id != kGone;
  LOWMEM_RETURN_IF_ERROR(ids.MakeRoom(num_ids));
  for (const Symbol& symbol : symbols_) {
    if (symbol.id != kGone) ids.Add(symbol.id);
  }
  return absl::OkStatus();
}

// Exactly what a long piece needs: doubling would take as much again.
absl::Status BpeEncoder::MakeRoom(size_t num_bytes) {
  if (num_bytes <= symbols_.capacity()) return absl::OkStatus();
  const size_t room =
      num_bytes > kLongPieceBytes ? num_bytes : std::bit_ceil(num_bytes);
  // Before more is taken; assigning would keep the old room.
  std::vector<Symbol>().swap(symbols_);
  std::vector<Candidate>().swap(heap_);
  charge_ = MemoryCharge();
  LOWMEM_ASSIGN_OR_RETURN(
      charge_, MemoryAccount::ReserveIn(
                   account_, room * (sizeof(Symbol) + sizeof(Candidate))));
  symbols_.reserve(room);
  heap_.reserve(room);
  return absl::OkStatus();
}

void BpeEncoder::AddSymbol(int32_t id) {
  const uint32_t pos = static_cast<uint32_t>(symbols_.size());
  symbols_.push_back({id, pos == 0 ? kNone : pos - 1, pos + 1});
}

void BpeEncoder::Start(absl::string_view piece) {
  symbols_.clear();
  const BpeOptions& options = model_.options();
  bool after_unknown = false;
  for (const char byte : piece) {
    const std::optional<int32_t> id =
        model_.IdOfByte(static_cast<uint8_t>(byte));
    if (id.has_value()) {
      AddSymbol(*id);
    } else if (options.unknown_id.has_value() &&
               !(after_unknown && options.fuse_unknown)) {
      AddSymbol(*options.unknown_id);
    }
    after_unknown = !id.has_value();
  }
  if (!symbols_.empty()) symbols_.back().next = kNone;
}

void BpeEncoder::Push(uint32_t pos) {
  ++num_steps_;
  const Symbol& left = symbols_[pos];
  const auto rank = model_.merges().Find(left.id, symbols_[left.next].id);
  if (!rank.has_value()) return;
  if (heap_.size() == heap_.capacity()) DropStale();
  heap_.push_back({*rank, pos});
  std::push_heap(heap_.begin(), heap_.end());
}

bool BpeEncoder::IsStale(const Candidate& candidate) const {
  const MergeTable::Merge& merge = model_.merges()[candidate.rank];
  const Symbol& left = symbols_[candidate.pos];
  return left.id != merge.left || left.next == kNone ||
         symbols_[left.next].id != merge.right;
}

// What is left is at most one candidate a pair, fewer than there were bytes at
// the start. Each merge frees a place for good, so this comes only after twice
// as many merges as the last time.
void BpeEncoder::DropStale() {
  std::erase_if(heap_, [this](const Candidate& c) { return IsStale(c); });
  std::sort(heap_.begin(), heap_.end());
  heap_.erase(std::unique(heap_.begin(), heap_.end()), heap_.end());
  std::make_heap(heap_.begin(), heap_.end());
}

void BpeEncoder::MergeAll() {
  heap_.clear();
  for (uint32_t pos = 0; pos + 1 < symbols_.size(); ++pos) {
    if (pos % kStepsBetweenChecks == 0 && IsCancelled()) return;
    Push(pos);
  }
  for (uint32_t turn = 0; !heap_.empty(); ++turn) {
    if (turn % kStepsBetweenChecks == 0 && IsCancelled()) return;
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate top = heap_.back();
    heap_.pop_back();
    ++num_steps_;
    if (IsStale(top)) continue;
    Symbol& left = symbols_[top.pos];
    Symbol& right = symbols_[left.next];

    left.id = model_.merges()[top.rank].result;
    left.next = right.next;
    right.id = kGone;
    if (left.next != kNone) {
      symbols_[left.next].prev = top.pos;
      Push(top.pos);
    }
    if (left.prev != kNone) Push(left.prev);
  }
}

}  // namespace lowmem
