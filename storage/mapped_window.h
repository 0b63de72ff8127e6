// SPDX-License-Identifier: Apache-2.0
// The part of mapped files that is in memory for rows that stream: pieces of
// their ranges in order of use, fetched ahead of it and given back behind it,
// both by the process and by the page cache.
//
//   range 0                       range 1              range 2 ...
//   ....|dropped|leased|fetched or being fetched|......................
//               ^ front, what is taken next     ^ what is fetched next
//
// Invariant: besides pages that are resident anyway and a row that is looked
// up, pages are in memory only where a piece covers them, and the pieces are no
// larger together than the window. The kernel reads nothing ahead on its own:
// pieces are asked for with their exact ends, and the mapping is advised that
// its use is random.

#ifndef LOWMEM_STORAGE_MAPPED_WINDOW_H_
#define LOWMEM_STORAGE_MAPPED_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/file.h"
#include "storage/page_runs.h"
#include "storage/stream_order.h"

namespace lowmem {

struct MappedFile {
  const RandomAccessFile* file = nullptr;
  const FileMapping* mapping = nullptr;
};

// Asks the kernel for exactly these pages; does not wait for them.
void FetchExactly(const RandomAccessFile& file, const PageRun& run);

// The pieces into which a window of this size cuts what flows through it.
uint64_t PieceBytesOf(uint64_t window_bytes, uint64_t page_bytes);

// Multiple of the page size; the smallest through which rows of that size can
// flow.
uint64_t SmallestWindowBytes(uint64_t max_row_bytes, uint64_t page_bytes);

// Tables that are filled for pieces beside those for resident pages.
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
  MappedWindow(const MappedWindow&) = delete;
  MappedWindow& operator=(const MappedWindow&) = delete;
  ~MappedWindow();

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

  // Pages outside of the order, for as long as they are used; what pieces hold
  // of them is left as it is.
  // Errors: those of FileMapping::Populate.
  absl::Status LookUp(const PageRun& run);
  void GiveBackLookedUp(const PageRun& run) { DropUnused(run); }

  // Asked of the files so far.
  uint64_t fetched_bytes() const { return fetched_bytes_; }

 private:
  struct Piece {
    size_t range_idx = 0;
    PageRun pages;
    uint64_t arrived_end = 0;  // pages before it have been waited for
  };

  size_t WithPages(size_t range_idx) const;
  PageRun PagesThatFlow(size_t range_idx, uint64_t row_begin,
                        uint64_t row_end) const;
  PageRun PieceAround(size_t range_idx, uint64_t ofs) const;
  uint64_t FetchedEnd() const;
  void MoveFetchingTo(size_t range_idx, uint64_t ofs);
  void Fetch(const PageRun& run);
  void DropFront();
  void DropAll();
  void DropUnused(PageRun run);
  void FreeTables(const PageRun& run) const;
  bool IsInAPiece(const PageRun& run) const;
  void Aim(size_t range_idx, uint64_t ofs);
  absl::Status AwaitPieces(const PageRun& run);
  absl::StatusOr<uint64_t> TakeNext(uint64_t max_rows);

  const std::vector<MappedFile> files_;
  const std::vector<StreamRange> ranges_;
  const PageSet& resident_;
  const uint64_t window_bytes_;
  const uint64_t piece_bytes_;
  // Of each range, less pages that are resident: they can only be its first and
  // its last. Empty when there are no others.
  std::vector<PageRun> pages_;

  std::deque<Piece> pieces_;  // in memory or on the way, oldest first
  uint64_t held_bytes_ = 0;   // of all pieces
  uint64_t fetched_bytes_ = 0;

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
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_MAPPED_WINDOW_H_
