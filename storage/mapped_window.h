// SPDX-License-Identifier: Apache-2.0
// The part of mapped files that is in memory for rows that stream: pieces of
// their ranges in order of use, fetched ahead of it and given back behind it,
// both by the process and by the page cache.
//
//   range 0                       range 1              range 2 ...
//   ....|dropped|leased|fetched or being fetched|......................
//               ^ front, what is taken next     ^ what is fetched next
//
// Invariant: the pieces are no larger together than the window.

#ifndef LOWMEM_STORAGE_MAPPED_WINDOW_H_
#define LOWMEM_STORAGE_MAPPED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/held_pages.h"
#include "storage/page_runs.h"
#include "storage/stream_order.h"

namespace lowmem {

// The pieces into which a window of this size cuts what flows through it.
uint64_t PieceBytesOf(uint64_t window_bytes, uint64_t page_bytes);

// Multiple of the page size; the smallest through which rows of that size can
// flow.
uint64_t SmallestWindowBytes(uint64_t max_row_bytes, uint64_t page_bytes);

// At once; each may need page tables of its own.
inline constexpr uint64_t kMaxWindowPieces = 16;

// Thread safety: one thread at a time; the rows may be read by others.
// Lifetime: files, mappings and the page set outlive the window, whose
// destructor gives back what is in memory.
class MappedWindow {
 public:
  // REQUIRES: window_bytes is at least SmallestWindowBytes of the largest row;
  // each range has rows.
  MappedWindow(std::vector<MappedFile> files, std::vector<StreamRange> ranges,
               const PageSet& resident, uint64_t window_bytes);
  const std::vector<StreamRange>& ranges() const { return ranges_; }

  // Fetches as many pieces as there is room for. Does not wait for them.
  void FetchAhead();

  // The next time that fetching comes to range `from_idx` it goes on with
  // `to_idx`: what lies between is not used in this pass. Replaces what was
  // said before; nothing is left out when the two are equal. REQUIRES: both are
  // ranges.
  void LeaveOut(size_t from_idx, size_t to_idx);

  // Whether `row` is what follows the rows taken last.
  bool IsNext(size_t range_idx, uint64_t row) const {
    return has_next_ && next_range_idx_ == range_idx && next_row_ == row;
  }

  // Brings rows from `row` on into memory and says how many: at least one, at
  // most `max_rows`. Out of order, what was fetched is given back up to there.
  // They stay until GiveBack. After an error the next call begins anew.
  // REQUIRES: the rows taken before were given back; row lies in the range.
  // Errors: those of FileMapping::Populate.
  absl::StatusOr<uint64_t> Take(size_t range_idx, uint64_t row,
                                uint64_t max_rows);
  // Gives back the rows taken last and fetches ahead.
  void GiveBack();

  // What is in memory for the window; pages outside of the order are looked up
  // there.
  HeldPages& held() { return held_; }
  const HeldPages& held() const { return held_; }

 private:
  size_t WithPages(size_t range_idx) const;
  PageRun PagesThatFlow(size_t range_idx, uint64_t row_begin,
                        uint64_t row_end) const;
  PageRun PieceAround(size_t range_idx, uint64_t ofs) const;
  uint64_t FetchedEnd() const;
  void MoveFetchingTo(size_t range_idx, uint64_t ofs);
  void Aim(size_t range_idx, uint64_t ofs);
  absl::StatusOr<uint64_t> TakeNext(uint64_t max_rows);

  const std::vector<StreamRange> ranges_;
  const uint64_t window_bytes_;
  const uint64_t piece_bytes_;
  // Of each range, less pages that are resident: they can only be its first and
  // its last. Empty when there are no others.
  std::vector<PageRun> pages_;

  // What is fetched next, in a range that has pages if there is any.
  bool has_pages_ = false;
  size_t fetch_range_idx_ = 0;
  uint64_t fetch_ofs_ = 0;
  size_t left_out_from_idx_ = 0;
  size_t left_out_to_idx_ = 0;  // equal: nothing is left out

  // What is taken next.
  bool has_next_ = false;
  size_t next_range_idx_ = 0;
  uint64_t next_row_ = 0;

  HeldPages held_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_MAPPED_WINDOW_H_
