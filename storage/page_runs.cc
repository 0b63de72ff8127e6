// SPDX-License-Identifier: Apache-2.0
#include "storage/page_runs.h"

#include <algorithm>
#include <utility>

namespace lowmem {

PageRun PagesOfRows(const StreamRange& range, uint64_t row_begin,
                    uint64_t row_end, uint64_t page_bytes) {
  const uint64_t first = range.base_ofs + range.RowPosition(row_begin);
  const uint64_t last = range.base_ofs + range.RowPosition(row_end);
  return {.file_idx = range.file_idx,
          .begin = first / page_bytes * page_bytes,
          .end = (last + page_bytes - 1) / page_bytes * page_bytes};
}

uint64_t MaxPageBytesOfRow(uint64_t row_bytes, uint64_t page_bytes) {
  // From the last byte of a page on.
  return ((row_bytes + page_bytes - 2) / page_bytes + 1) * page_bytes;
}

PageSet::PageSet(absl::Span<const StreamRange> ranges, uint64_t page_bytes) {
  for (const StreamRange& range : ranges) {
    const PageRun run =
        PagesOfRows(range, range.row_begin, range.row_end, page_bytes);
    if (!runs_.empty() && runs_.back().file_idx == run.file_idx &&
        run.begin <= runs_.back().end) {
      runs_.back().end = std::max(runs_.back().end, run.end);
    } else {
      runs_.push_back(run);
    }
  }
  for (const PageRun& run : runs_) num_bytes_ += run.num_bytes();
}

const PageRun* PageSet::FirstOverlap(const PageRun& run) const {
  // The first that ends behind the beginning.
  const auto found = std::upper_bound(
      runs_.begin(), runs_.end(), run, [](const PageRun& a, const PageRun& b) {
        return std::pair(a.file_idx, a.begin) < std::pair(b.file_idx, b.end);
      });
  const bool overlaps = found != runs_.end() &&
                        found->file_idx == run.file_idx &&
                        found->begin < run.end;
  return overlaps ? &*found : nullptr;
}

PageRun PageSet::WithoutEnds(PageRun run, uint64_t page_bytes) const {
  if (Intersects({run.file_idx, run.begin, run.begin + page_bytes})) {
    run.begin += page_bytes;
  }
  if (run.begin < run.end &&
      Intersects({run.file_idx, run.end - page_bytes, run.end})) {
    run.end -= page_bytes;
  }
  return run;
}

uint64_t PageSet::CountUnits(uint64_t unit_bytes) const {
  uint64_t num_units = 0;
  std::pair<uint32_t, uint64_t> last_unit;  // of the run before
  for (const PageRun& run : runs_) {
    const std::pair first_unit(run.file_idx, run.begin / unit_bytes);
    const uint64_t last = (run.end - 1) / unit_bytes;
    num_units += last - first_unit.second + 1;
    if (&run != &runs_.front() && first_unit == last_unit) {
      --num_units;
    }
    last_unit = {run.file_idx, last};
  }
  return num_units;
}

}  // namespace lowmem
