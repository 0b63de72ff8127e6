// SPDX-License-Identifier: Apache-2.0
// The pages of mapped files that are in memory for a while: pieces, which come
// and go in order, and a row that is looked up now and then. Knows nothing of
// rows and of what comes next.
//
// Invariant: besides pages that are resident anyway and the row that is looked
// up, pages are in memory only where a piece covers them. The kernel reads
// nothing on its own: pieces are asked for with their exact ends, and the
// mapping is advised that its use is random.

#ifndef LOWMEM_STORAGE_HELD_PAGES_H_
#define LOWMEM_STORAGE_HELD_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "storage/file.h"
#include "storage/page_runs.h"

namespace lowmem {

struct MappedFile {
  const RandomAccessFile* file = nullptr;
  const FileMapping* mapping = nullptr;
};

// Asks the kernel for exactly these pages; does not wait for them.
void FetchExactly(const RandomAccessFile& file, const PageRun& run);

// Thread safety: one thread at a time; pages may be read by others.
// Lifetime: files, mappings and the page set outlive it, whose destructor gives
// back what is held.
class HeldPages {
 public:
  struct Piece {
    size_t range_idx = 0;  // the caller's
    PageRun pages;
    uint64_t arrived_end = 0;  // pages before it have been waited for
  };

  // None of them is mapped, or only resident ones.
  HeldPages(std::vector<MappedFile> files, const PageSet& resident);
  HeldPages(const HeldPages&) = delete;
  HeldPages& operator=(const HeldPages&) = delete;
  ~HeldPages() { DropAll(); }

  // Oldest first.
  const std::deque<Piece>& pieces() const { return pieces_; }
  // Of all pieces; a page that two of them share is counted twice.
  uint64_t num_bytes() const { return num_bytes_; }
  // Asked of the files so far.
  uint64_t fetched_bytes() const { return fetched_bytes_; }

  // Begins to fetch a piece. REQUIRES: none of its pages is resident.
  void Fetch(size_t range_idx, const PageRun& pages);
  // Waits for pages of pieces and maps them.
  // Errors: those of FileMapping::Populate.
  absl::Status Await(const PageRun& run);
  void DropFront();
  void DropAll();

  // Brings pages in beside the pieces; what pieces hold of them is left as it
  // is, now and when they are given back.
  // Errors: those of FileMapping::Populate.
  absl::Status LookUp(const PageRun& run);
  // Gives back what is neither resident nor a piece's: of the run, and of what
  // the system mapped around it by itself.
  void DropAround(const PageRun& run);

 private:
  bool IsInAPiece(const PageRun& run) const;
  void DropUnused(const PageRun& run);
  void FreeTables(const PageRun& run) const;

  const std::vector<MappedFile> files_;
  const PageSet& resident_;
  std::deque<Piece> pieces_;
  uint64_t num_bytes_ = 0;
  uint64_t fetched_bytes_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_HELD_PAGES_H_
