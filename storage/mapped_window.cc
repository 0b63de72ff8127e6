// SPDX-License-Identifier: Apache-2.0
#include "storage/mapped_window.h"

#include <algorithm>
#include <utility>

#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// Of a window. Fewer pieces are larger, which is cheaper (1 MiB costs two thirds
// of the processor time that 128 KiB does); more keep the disk busy better.
constexpr uint64_t kPiecesPerWindow = 8;
constexpr uint64_t kMaxPieceBytes = kMiB;

// What is computed with is not being fetched: a taker gets at most this part of
// the window at once.
constexpr uint64_t kTakenPart = 4;

// The kernel cuts off what it is asked to fetch at once at what suits the disk,
// which is 128 KiB at least. Several calls are as fast as one.
constexpr uint64_t kFetchBytes = 128 * kKiB;

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool Overlaps(const PageRun& a, const PageRun& b) {
  return a.file_idx == b.file_idx && a.begin < b.end && b.begin < a.end;
}

}  // namespace

void FetchExactly(const RandomAccessFile& file, const PageRun& run) {
  for (uint64_t ofs = run.begin; ofs < run.end; ofs += kFetchBytes) {
    file.Prefetch(ofs, std::min(kFetchBytes, run.end - ofs));
  }
}

uint64_t PieceBytesOf(uint64_t window_bytes, uint64_t page_bytes) {
  const uint64_t part = window_bytes / kPiecesPerWindow;
  return std::clamp(part - part % page_bytes, page_bytes,
                    std::max(page_bytes, kMaxPieceBytes));
}

uint64_t SmallestWindowBytes(uint64_t max_row_bytes, uint64_t page_bytes) {
  // A row with a whole piece more at each end: six parts of eight for the row.
  const uint64_t row_bytes = MaxPageBytesOfRow(max_row_bytes, page_bytes);
  return RoundUp(row_bytes * kPiecesPerWindow / (kPiecesPerWindow - 2),
                 kPiecesPerWindow * page_bytes);
}

MappedWindow::MappedWindow(std::vector<MappedFile> files,
                           std::vector<StreamRange> ranges,
                           const PageSet& resident, uint64_t window_bytes)
    : files_(std::move(files)),
      ranges_(std::move(ranges)),
      resident_(resident),
      window_bytes_(window_bytes),
      piece_bytes_(PieceBytesOf(window_bytes, PageBytes())) {
  const uint64_t page = PageBytes();
  for (const StreamRange& range : ranges_) {
    PageRun run = PagesOfRows(range, range.row_begin, range.row_end, page);
    if (resident_.Intersects({run.file_idx, run.begin, run.begin + page})) {
      run.begin += page;
    }
    if (run.begin < run.end &&
        resident_.Intersects({run.file_idx, run.end - page, run.end})) {
      run.end -= page;
    }
    has_pages_ |= run.begin < run.end;
    pages_.push_back(run);
  }
  if (has_pages_) MoveFetchingTo(0, pages_[0].begin);
}

MappedWindow::~MappedWindow() { DropAll(); }

// The range, or the first one after it, round and round, that has pages of its
// own. REQUIRES: has_pages_.
size_t MappedWindow::WithPages(size_t range_idx) const {
  while (pages_[range_idx].begin >= pages_[range_idx].end) {
    range_idx = (range_idx + 1) % pages_.size();
  }
  return range_idx;
}

// Those pages of the rows that are not resident. Perhaps empty.
PageRun MappedWindow::PagesThatFlow(size_t range_idx, uint64_t row_begin,
                                    uint64_t row_end) const {
  PageRun run =
      PagesOfRows(ranges_[range_idx], row_begin, row_end, PageBytes());
  run.begin = std::max(run.begin, pages_[range_idx].begin);
  run.end = std::max(run.begin, std::min(run.end, pages_[range_idx].end));
  return run;
}

// Pieces always begin at the same places, so one is known by its beginning.
PageRun MappedWindow::PieceAround(size_t range_idx, uint64_t ofs) const {
  PageRun run = pages_[range_idx];
  run.begin += (ofs - run.begin) / piece_bytes_ * piece_bytes_;
  run.end = std::min(run.end, run.begin + piece_bytes_);
  return run;
}

void MappedWindow::MoveFetchingTo(size_t range_idx, uint64_t ofs) {
  if (ofs >= pages_[range_idx].end) {
    range_idx = WithPages((range_idx + 1) % pages_.size());
    ofs = pages_[range_idx].begin;
  }
  if (range_idx == left_out_from_idx_ && ofs == pages_[range_idx].begin) {
    range_idx = left_out_to_idx_;
    ofs = pages_[range_idx].begin;
    left_out_from_idx_ = left_out_to_idx_;
  }
  fetch_range_idx_ = range_idx;
  fetch_ofs_ = ofs;
}

void MappedWindow::LeaveOut(size_t from_idx, size_t to_idx) {
  if (!has_pages_) return;
  left_out_from_idx_ = WithPages(from_idx);
  left_out_to_idx_ = WithPages(to_idx);
  MoveFetchingTo(fetch_range_idx_, fetch_ofs_);
}

void MappedWindow::Fetch(const PageRun& run) {
  FetchExactly(*files_[run.file_idx].file, run);
  fetched_bytes_ += run.num_bytes();
}

void MappedWindow::FetchAhead() {
  while (has_pages_ && pieces_.size() < kMaxWindowPieces) {
    const PageRun run = PieceAround(fetch_range_idx_, fetch_ofs_);
    if (held_bytes_ + run.num_bytes() > window_bytes_) return;
    // All that streams is in memory: once round.
    if (!pieces_.empty() && pieces_.front().range_idx == fetch_range_idx_ &&
        pieces_.front().pages.begin == run.begin) {
      return;
    }
    Fetch(run);
    pieces_.push_back({fetch_range_idx_, run, run.begin});
    held_bytes_ += run.num_bytes();
    MoveFetchingTo(fetch_range_idx_, run.end);
  }
}

bool MappedWindow::IsInAPiece(const PageRun& run) const {
  return std::any_of(
      pieces_.begin(), pieces_.end(),
      [&run](const Piece& piece) { return Overlaps(piece.pages, run); });
}

void MappedWindow::DropFront() {
  const Piece piece = pieces_.front();
  const MappedFile& file = files_[piece.pages.file_idx];
  if (piece.arrived_end < piece.pages.end) {
    // Pages that are being read do not leave the cache. That reading what
    // nobody wants may fail is no failure.
    static_cast<void>(file.mapping->Populate(
        piece.arrived_end, piece.pages.end - piece.arrived_end));
  }
  pieces_.pop_front();
  held_bytes_ -= piece.pages.num_bytes();
  DropUnused(piece.pages);
}

void MappedWindow::DropAll() {
  while (!pieces_.empty()) DropFront();
}

// Gives back the pages that neither are resident nor belong to a piece.
void MappedWindow::DropUnused(PageRun run) {
  if (run.begin >= run.end) return;
  for (const Piece& piece : pieces_) {
    if (!Overlaps(piece.pages, run)) continue;
    DropUnused({run.file_idx, run.begin, piece.pages.begin});
    DropUnused({run.file_idx, piece.pages.end, run.end});
    return;
  }
  // Within rows that are not resident only the ends can be.
  const uint64_t page = PageBytes();
  if (resident_.Intersects({run.file_idx, run.begin, run.begin + page})) {
    run.begin += page;
  }
  if (run.begin < run.end &&
      resident_.Intersects({run.file_idx, run.end - page, run.end})) {
    run.end -= page;
  }
  if (run.begin >= run.end) return;
  files_[run.file_idx].mapping->Drop(run.begin, run.num_bytes());
  FreeTables(run);
}

// Gives back the page tables around a run that was dropped, where nothing else
// needs them. A pass would else leave one behind for every span of the file.
void MappedWindow::FreeTables(const PageRun& run) const {
  const uint64_t span_bytes = PageTableSpanBytes();
  for (uint64_t begin = run.begin / span_bytes * span_bytes; begin < run.end;
       begin += span_bytes) {
    const PageRun span = {run.file_idx, begin, begin + span_bytes};
    if (resident_.Intersects(span) || IsInAPiece(span)) continue;
    files_[run.file_idx].mapping->FreePageTables(begin, span_bytes);
  }
}

void MappedWindow::Aim(size_t range_idx, uint64_t ofs) {
  const PageRun wanted = PieceAround(range_idx, ofs);
  const auto found = std::find_if(
      pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
        return piece.range_idx == range_idx && piece.pages.begin == wanted.begin;
      });
  if (found == pieces_.end()) {
    DropAll();
    left_out_from_idx_ = left_out_to_idx_;
    MoveFetchingTo(range_idx, wanted.begin);
    return;
  }
  const ptrdiff_t num_before = found - pieces_.begin();
  for (ptrdiff_t i = 0; i < num_before; ++i) DropFront();
}

// How far the range of the first piece is in memory or on the way, without
// gaps.
uint64_t MappedWindow::FetchedEnd() const {
  uint64_t end = pieces_.front().pages.begin;
  for (const Piece& piece : pieces_) {
    if (piece.range_idx != pieces_.front().range_idx ||
        piece.pages.begin != end) {
      break;
    }
    end = piece.pages.end;
  }
  return end;
}

absl::Status MappedWindow::AwaitPieces(const PageRun& run) {
  LOWMEM_RETURN_IF_ERROR(
      files_[run.file_idx].mapping->Populate(run.begin, run.num_bytes()));
  for (Piece& piece : pieces_) {
    if (piece.range_idx != next_range_idx_) break;
    if (run.begin <= piece.arrived_end && piece.arrived_end < run.end) {
      piece.arrived_end = std::min(run.end, piece.pages.end);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> MappedWindow::TakeNext(uint64_t max_rows) {
  const StreamRange& range = ranges_[next_range_idx_];
  uint64_t num_rows = std::min(
      {max_rows, range.row_end - next_row_,
       std::max<uint64_t>(1, window_bytes_ / kTakenPart / range.row_bytes)});
  PageRun run =
      PagesThatFlow(next_range_idx_, next_row_, next_row_ + num_rows);
  if (run.begin < run.end) {
    const bool is_in_front = !pieces_.empty() &&
                             pieces_.front().range_idx == next_range_idx_ &&
                             pieces_.front().pages.begin <= run.begin &&
                             run.begin < pieces_.front().pages.end;
    if (!is_in_front) Aim(next_range_idx_, run.begin);
    FetchAhead();
    const uint64_t end = FetchedEnd();
    if (end < run.end) {
      const uint64_t first_ofs = range.base_ofs + range.RowPosition(next_row_);
      num_rows = std::max<uint64_t>(1, (end - first_ofs) / range.row_bytes);
      run = PagesThatFlow(next_range_idx_, next_row_, next_row_ + num_rows);
    }
    LOWMEM_RETURN_IF_ERROR(AwaitPieces(run));
  }
  next_row_ += num_rows;
  return num_rows;
}

absl::StatusOr<uint64_t> MappedWindow::Take(size_t range_idx, uint64_t row,
                                            uint64_t max_rows) {
  has_next_ = true;
  next_range_idx_ = range_idx;
  next_row_ = row;
  absl::StatusOr<uint64_t> num_rows = TakeNext(max_rows);
  if (!num_rows.ok()) {
    DropAll();
    has_next_ = false;
  }
  return num_rows;
}

void MappedWindow::GiveBack() {
  const StreamRange& range = ranges_[next_range_idx_];
  const bool is_range_over = next_row_ == range.row_end;
  const uint64_t range_end = pages_[next_range_idx_].end;
  const uint64_t used_end =
      is_range_over
          ? range_end
          : PagesOfRows(range, next_row_, next_row_ + 1, PageBytes()).begin;
  while (!pieces_.empty() && pieces_.front().range_idx == next_range_idx_ &&
         pieces_.front().pages.end <= used_end) {
    const bool was_last = pieces_.front().pages.end == range_end;
    DropFront();
    // What follows it is of the next pass, where one range is all that streams.
    if (was_last) break;
  }
  if (is_range_over) {
    next_range_idx_ = (next_range_idx_ + 1) % ranges_.size();
    next_row_ = ranges_[next_range_idx_].row_begin;
  }
  FetchAhead();
}

absl::Status MappedWindow::LookUp(const PageRun& run) {
  const bool is_here = std::any_of(
      pieces_.begin(), pieces_.end(), [&run](const Piece& piece) {
        return piece.pages.file_idx == run.file_idx &&
               piece.pages.begin <= run.begin && run.end <= piece.pages.end;
      });
  if (!is_here) Fetch(run);
  absl::Status status =
      files_[run.file_idx].mapping->Populate(run.begin, run.num_bytes());
  if (!status.ok()) DropUnused(run);
  return status;
}

}  // namespace lowmem
