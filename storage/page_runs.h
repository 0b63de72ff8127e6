// SPDX-License-Identifier: Apache-2.0
// Which pages of a checkpoint's files hold given rows. A page is in memory as a
// whole, also where two tensors share it, so memory that is mapped is counted
// in pages, each once.

#ifndef LOWMEM_STORAGE_PAGE_RUNS_H_
#define LOWMEM_STORAGE_PAGE_RUNS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "storage/stream_order.h"

namespace lowmem {

// Consecutive pages: multiples of the page size, also where the file ends
// within the last one.
struct PageRun {
  uint32_t file_idx = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t num_bytes() const { return end - begin; }
};

// The pages that hold rows [row_begin, row_end) of the range.
PageRun PagesOfRows(const StreamRange& range, uint64_t row_begin,
                    uint64_t row_end, uint64_t page_bytes);

// Pages that a row of this size may touch, wherever it lies.
uint64_t MaxPageBytesOfRow(uint64_t row_bytes, uint64_t page_bytes);

// A fixed set of pages. Thread safety: const methods are thread-safe.
class PageSet {
 public:
  PageSet() = default;
  // Of all the rows of `ranges`, which are in file order.
  PageSet(absl::Span<const StreamRange> ranges, uint64_t page_bytes);

  // Disjoint, no two neighbours, in file order.
  const std::vector<PageRun>& runs() const { return runs_; }
  uint64_t num_bytes() const { return num_bytes_; }
  // The first of runs() that shares a page with `run`; nullptr when none does.
  const PageRun* FirstOverlap(const PageRun& run) const;
  bool Intersects(const PageRun& run) const {
    return FirstOverlap(run) != nullptr;
  }
  // The run less its first and its last page where those are in the set.
  // Perhaps empty.
  PageRun WithoutEnds(PageRun run, uint64_t page_bytes) const;
  // Aligned stretches of `unit_bytes` that hold a page of the set.
  // REQUIRES: unit_bytes is a multiple of the page size.
  uint64_t CountUnits(uint64_t unit_bytes) const;

 private:
  std::vector<PageRun> runs_;
  uint64_t num_bytes_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_PAGE_RUNS_H_
