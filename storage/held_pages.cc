// SPDX-License-Identifier: Apache-2.0
#include "storage/held_pages.h"

#include <algorithm>
#include <utility>

#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// The kernel cuts off what it is asked to fetch at once at what suits the disk,
// which is 128 KiB at least. Several calls are as fast as one.
constexpr uint64_t kFetchBytes = 128 * kKiB;

// Where the kernel maps a page it maps those around it too that are in the
// cache anyway, because another process uses them or the file lives in memory:
// 64 KiB (fault_around_bytes), and since Linux 6.18 the whole piece in which
// they are cached, within what one page table covers.
PageRun WithPagesAround(PageRun run) {
  const uint64_t unit = PageTableSpanBytes();
  run.begin -= run.begin % unit;
  run.end = (run.end + unit - 1) / unit * unit;
  return run;
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

HeldPages::HeldPages(std::vector<MappedFile> files, const PageSet& resident)
    : files_(std::move(files)), resident_(resident) {}

void HeldPages::Fetch(size_t range_idx, const PageRun& pages) {
  FetchExactly(*files_[pages.file_idx].file, pages);
  pieces_.push_back({range_idx, pages, pages.begin});
  num_bytes_ += pages.num_bytes();
  fetched_bytes_ += pages.num_bytes();
}

absl::Status HeldPages::Await(const PageRun& run) {
  const FileMapping& mapping = *files_[run.file_idx].mapping;
  // Another process that uses the file may have dropped them meanwhile: all at
  // once they come in faster than page by page.
  mapping.Prefetch(run.begin, run.num_bytes());
  LOWMEM_RETURN_IF_ERROR(mapping.Populate(run.begin, run.num_bytes()));
  for (Piece& piece : pieces_) {
    if (piece.pages.file_idx == run.file_idx &&
        run.begin <= piece.arrived_end && piece.arrived_end < run.end) {
      piece.arrived_end = std::min(run.end, piece.pages.end);
    }
  }
  return absl::OkStatus();
}

void HeldPages::DropFront() {
  const Piece piece = pieces_.front();
  if (piece.arrived_end < piece.pages.end) {
    // Pages that are being read do not leave the cache. That reading what
    // nobody wants may fail is no failure.
    static_cast<void>(files_[piece.pages.file_idx].mapping->Populate(
        piece.arrived_end, piece.pages.end - piece.arrived_end));
  }
  pieces_.pop_front();
  num_bytes_ -= piece.pages.num_bytes();
  DropUnused(WithPagesAround(piece.pages));
}

void HeldPages::DropAll() {
  while (!pieces_.empty()) DropFront();
}

void HeldPages::DropAround(const PageRun& run) {
  DropUnused(WithPagesAround(run));
}

absl::Status HeldPages::LookUp(const PageRun& run) {
  const bool is_here =
      std::any_of(pieces_.begin(), pieces_.end(), [&run](const Piece& piece) {
        return piece.pages.file_idx == run.file_idx &&
               piece.pages.begin <= run.begin && run.end <= piece.pages.end;
      });
  if (!is_here) {
    FetchExactly(*files_[run.file_idx].file, run);
    fetched_bytes_ += run.num_bytes();
  }
  absl::Status status =
      files_[run.file_idx].mapping->Populate(run.begin, run.num_bytes());
  if (!status.ok()) DropAround(run);
  return status;
}

bool HeldPages::IsInAPiece(const PageRun& run) const {
  return std::any_of(
      pieces_.begin(), pieces_.end(),
      [&run](const Piece& piece) { return Overlaps(piece.pages, run); });
}

// Gives back the pages that neither are resident nor belong to a piece.
void HeldPages::DropUnused(const PageRun& run) {
  if (run.begin >= run.end) return;
  const PageRun* used = resident_.FirstOverlap(run);
  for (const Piece& piece : pieces_) {
    if (used == nullptr && Overlaps(piece.pages, run)) used = &piece.pages;
  }
  if (used != nullptr) {
    DropUnused({run.file_idx, run.begin, used->begin});
    DropUnused({run.file_idx, used->end, run.end});
    return;
  }
  files_[run.file_idx].mapping->Drop(run.begin, run.num_bytes());
  FreeTables(run);
}

// Gives back the page tables around a run that was dropped, where nothing else
// needs them. A pass would else leave one behind for every span of the file.
void HeldPages::FreeTables(const PageRun& run) const {
  const uint64_t span_bytes = PageTableSpanBytes();
  for (uint64_t begin = run.begin / span_bytes * span_bytes; begin < run.end;
       begin += span_bytes) {
    const PageRun span = {run.file_idx, begin, begin + span_bytes};
    if (resident_.Intersects(span) || IsInAPiece(span)) continue;
    files_[run.file_idx].mapping->FreePageTables(begin, span_bytes);
  }
}

}  // namespace lowmem
