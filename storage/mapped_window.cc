// SPDX-License-Identifier: Apache-2.0
#include "storage/mapped_window.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// Of a window. Fewer pieces are larger, which is cheaper (1 MiB costs two
// thirds of the processor time that 64 KiB does); more keep the disk busy
// better.
constexpr uint64_t kPiecesPerWindow = 8;
constexpr uint64_t kMaxPieceBytes = kMiB;

// What is computed with is not being fetched: a taker gets at most this part of
// the window at once.
constexpr uint64_t kTakenPart = 4;

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

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
    : ranges_(std::move(ranges)),
      window_bytes_(window_bytes),
      piece_bytes_(PieceBytesOf(window_bytes, PageBytes())),
      held_(std::move(files), resident) {
  for (const StreamRange& range : ranges_) {
    pages_.push_back(resident.WithoutEnds(
        PagesOfRows(range, range.row_begin, range.row_end, PageBytes()),
        PageBytes()));
    has_pages_ |= pages_.back().begin < pages_.back().end;
  }
  if (has_pages_) MoveFetchingTo(0, pages_[0].begin);
}

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

void MappedWindow::FetchAhead() {
  const std::deque<HeldPages::Piece>& pieces = held_.pieces();
  while (has_pages_ && pieces.size() < kMaxWindowPieces) {
    const PageRun run = PieceAround(fetch_range_idx_, fetch_ofs_);
    if (held_.num_bytes() + run.num_bytes() > window_bytes_) return;
    // All that streams is in memory: once round.
    if (!pieces.empty() && pieces.front().range_idx == fetch_range_idx_ &&
        pieces.front().pages.begin == run.begin) {
      return;
    }
    held_.Fetch(fetch_range_idx_, run);
    MoveFetchingTo(fetch_range_idx_, run.end);
  }
}

void MappedWindow::Aim(size_t range_idx, uint64_t ofs) {
  const PageRun wanted = PieceAround(range_idx, ofs);
  const auto found = std::find_if(held_.pieces().begin(), held_.pieces().end(),
                                  [&](const HeldPages::Piece& piece) {
                                    return piece.range_idx == range_idx &&
                                           piece.pages.begin == wanted.begin;
                                  });
  if (found == held_.pieces().end()) {
    held_.DropAll();
    left_out_from_idx_ = left_out_to_idx_;
    MoveFetchingTo(range_idx, wanted.begin);
    return;
  }
  const ptrdiff_t num_before = found - held_.pieces().begin();
  for (ptrdiff_t i = 0; i < num_before; ++i) held_.DropFront();
}

// How far the range of the first piece is in memory or on the way, without
// gaps.
uint64_t MappedWindow::FetchedEnd() const {
  uint64_t end = held_.pieces().front().pages.begin;
  for (const HeldPages::Piece& piece : held_.pieces()) {
    if (piece.range_idx != held_.pieces().front().range_idx ||
        piece.pages.begin != end) {
      break;
    }
    end = piece.pages.end;
  }
  return end;
}

absl::StatusOr<uint64_t> MappedWindow::TakeNext(uint64_t max_rows) {
  const StreamRange& range = ranges_[next_range_idx_];
  uint64_t num_rows = std::min(
      {max_rows, range.row_end - next_row_,
       std::max<uint64_t>(1, window_bytes_ / kTakenPart / range.row_bytes)});
  PageRun run = PagesThatFlow(next_range_idx_, next_row_, next_row_ + num_rows);
  if (run.begin < run.end) {
    const bool is_in_front =
        !held_.pieces().empty() &&
        held_.pieces().front().range_idx == next_range_idx_ &&
        held_.pieces().front().pages.begin <= run.begin &&
        run.begin < held_.pieces().front().pages.end;
    if (!is_in_front) Aim(next_range_idx_, run.begin);
    FetchAhead();
    const uint64_t end = FetchedEnd();
    if (end < run.end) {
      const uint64_t first_ofs = range.base_ofs + range.RowPosition(next_row_);
      num_rows = std::max<uint64_t>(1, (end - first_ofs) / range.row_bytes);
      run = PagesThatFlow(next_range_idx_, next_row_, next_row_ + num_rows);
    }
    LOWMEM_RETURN_IF_ERROR(held_.Await(run));
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
    held_.DropAll();
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
  while (!held_.pieces().empty() &&
         held_.pieces().front().range_idx == next_range_idx_ &&
         held_.pieces().front().pages.end <= used_end) {
    const bool was_last = held_.pieces().front().pages.end == range_end;
    held_.DropFront();
    // What follows it is of the next pass, where one range is all that streams.
    if (was_last) break;
  }
  if (is_range_over) {
    next_range_idx_ = (next_range_idx_ + 1) % ranges_.size();
    next_row_ = ranges_[next_range_idx_].row_begin;
  }
  FetchAhead();
}

}  // namespace lowmem
