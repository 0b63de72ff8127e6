// SPDX-License-Identifier: Apache-2.0
// A residency plan as a source asks it: where a row of a tensor is, and what
// streams in and after a step.

#ifndef LOWMEM_STORAGE_PLANNED_ROWS_H_
#define LOWMEM_STORAGE_PLANNED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/checkpoint.h"
#include "storage/residency_plan.h"
#include "storage/stream_order.h"
#include "storage/weight_source.h"

namespace lowmem {

// Consecutive rows of a tensor that are planned together.
struct RowBand {
  uint64_t row_begin = 0;
  uint64_t row_end = 0;
  uint64_t resident_end = 0;  // rows before it stay in memory
  // Of the other rows, in StreamedRanges; nullopt when they are looked up, or
  // when there are none.
  std::optional<size_t> range_idx;
  size_t band_idx = 0;  // of all bands of the plan
};

// Thread safety: const methods are thread-safe. Memory: some 100 bytes a
// tensor.
class PlannedRows {
 public:
  // Errors: kInvalidArgument when the plan is of another checkpoint.
  static absl::StatusOr<PlannedRows> Create(const Checkpoint& checkpoint,
                                            const ResidencyPlan& plan);

  // Errors: kInternal for rows that the plan does not have.
  absl::StatusOr<RowBand> Find(TensorId tensor, uint64_t row) const;
  size_t num_bands() const { return num_bands_; }

  // What the caller is about to use, to be called before each step: the ranges
  // [from_idx, to_idx), round and round, would come next but do not. nullopt
  // when the step is no news. Changes what is expected after it.
  struct LeftOut {
    size_t from_idx = 0;
    size_t to_idx = 0;
  };
  std::optional<LeftOut> Announce(const WeightStep& step);

 private:
  struct Place {
    std::optional<size_t> step_idx;  // nullopt for what is looked up
    std::vector<RowBand> bands;      // in order of rows
  };

  explicit PlannedRows(const Checkpoint& checkpoint)
      : checkpoint_(&checkpoint), places_(checkpoint.tensors().size()) {}
  absl::Status AddBand(const TensorPlacement& tensor,
                       std::optional<size_t> step_idx,
                       std::optional<size_t> range_idx);

  const Checkpoint* checkpoint_;
  std::vector<Place> places_;                    // by TensorId
  std::vector<size_t> first_range_idx_of_step_;  // streamed in it, or after it
  size_t announced_step_idx_ = 0;
  size_t num_bands_ = 0;
  bool has_ranges_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_PLANNED_ROWS_H_
