// SPDX-License-Identifier: Apache-2.0
// What streams in a pass, in order of use, as byte ranges of files whose ends
// suit the disk; and the tensors of a model as the residency plan sees them.

#ifndef LOWMEM_STORAGE_STREAM_ORDER_H_
#define LOWMEM_STORAGE_STREAM_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "storage/checkpoint.h"
#include "storage/residency_plan.h"
#include "storage/weight_source.h"

namespace lowmem {

// Consecutive rows of one tensor.
struct StreamRange {
  TensorId tensor = 0;
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
  uint64_t row_bytes = 0;
  uint32_t file_idx = 0;
  uint64_t base_ofs = 0;  // in the file: a block's start, at or before the rows
  uint64_t skip_bytes = 0;  // from there to the first row
  uint64_t num_bytes = 0;   // from there to the end of the last row

  // From base_ofs to the first byte of `row`; also of row_end.
  uint64_t RowPosition(uint64_t row) const {
    return skip_bytes + (row - row_begin) * row_bytes;
  }
};

// REQUIRES: row_begin < row_end, which is at most the tensor's number of rows.
StreamRange RangeOfRows(const TensorInfo& info, TensorId tensor,
                        uint64_t row_begin, uint64_t row_end);

// The streamed rows of the plan's steps, in order of use.
std::vector<StreamRange> StreamedRanges(const Checkpoint& checkpoint,
                                        const ResidencyPlan& plan);

// The resident rows of the plan, each band's once, in file order: a disk
// reads them once, from front to back.
std::vector<StreamRange> ResidentRanges(const Checkpoint& checkpoint,
                                        const ResidencyPlan& plan);

// Large matrices are planned in bands of about this size, each with its own
// share of resident rows. While resident rows are computed with, only as much
// can be read as the ring holds: 16 MiB take 0.8 ms at 20 GB/s, in which a disk
// of 5 GB/s fills the 4 MiB of the usual ring.
inline constexpr uint64_t kBandBytes = uint64_t{16} << 20;

// The sizes of the steps' tensors, for a plan; the bytes available and those of
// the ring are the caller's to set. Matrices may stream, vectors may not.
// Tensors of `looked_up` that a step has too are left to the step. REQUIRES:
// band_bytes > 0.
ResidencyRequest DescribeSteps(const Checkpoint& checkpoint,
                               absl::Span<const WeightStep> steps,
                               absl::Span<const TensorId> looked_up,
                               uint64_t band_bytes = kBandBytes);

// The largest row of any tensor in the request or plan. 0 when there is none.
uint64_t MaxRowBytes(const ResidencyRequest& request);
uint64_t MaxRowBytes(const ResidencyPlan& plan);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_STREAM_ORDER_H_
