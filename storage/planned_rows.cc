// SPDX-License-Identifier: Apache-2.0
#include "storage/planned_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

bool IsOf(const Checkpoint& checkpoint, const TensorPlacement& tensor) {
  if (tensor.tensor >= checkpoint.tensors().size()) return false;
  const TensorInfo& info = checkpoint.tensors()[tensor.tensor];
  return RangeFits(tensor.row_begin, tensor.num_rows, info.num_rows()) &&
         tensor.resident_rows <= tensor.num_rows &&
         (tensor.num_rows == 0 || tensor.row_bytes == info.row_bytes());
}

}  // namespace

absl::StatusOr<PlannedRows> PlannedRows::Create(const Checkpoint& checkpoint,
                                                const ResidencyPlan& plan) {
  PlannedRows rows(checkpoint);
  size_t num_ranges = 0;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    rows.first_range_idx_of_step_.push_back(num_ranges);
    for (const TensorPlacement& tensor : plan.steps[i]) {
      const bool streams = tensor.streamed_bytes() > 0;
      LOWMEM_RETURN_IF_ERROR(rows.AddBand(
          tensor, i, streams ? std::optional(num_ranges) : std::nullopt));
      num_ranges += streams;
    }
  }
  for (const TensorPlacement& tensor : plan.looked_up) {
    LOWMEM_RETURN_IF_ERROR(rows.AddBand(tensor, std::nullopt, std::nullopt));
  }
  // After the last range comes the first.
  for (size_t& idx : rows.first_range_idx_of_step_) {
    if (idx == num_ranges) idx = 0;
  }
  rows.has_ranges_ = num_ranges > 0;
  for (Place& place : rows.places_) {
    std::sort(place.bands.begin(), place.bands.end(),
              [](const RowBand& a, const RowBand& b) {
                return a.row_begin < b.row_begin;
              });
  }
  return rows;
}

absl::Status PlannedRows::AddBand(const TensorPlacement& tensor,
                                  std::optional<size_t> step_idx,
                                  std::optional<size_t> range_idx) {
  if (!IsOf(*checkpoint_, tensor)) {
    return absl::InvalidArgumentError(
        absl::StrCat(PrintablePath(checkpoint_->path()),
                     ": the residency plan is of another checkpoint"));
  }
  Place& place = places_[tensor.tensor];
  place.step_idx = step_idx;
  place.bands.push_back(
      {.row_begin = tensor.row_begin,
       .row_end = tensor.row_begin + tensor.num_rows,
       .resident_end = tensor.row_begin + tensor.resident_rows,
       .range_idx = range_idx,
       .band_idx = num_bands_++});
  return absl::OkStatus();
}

absl::StatusOr<RowBand> PlannedRows::Find(TensorId tensor, uint64_t row) const {
  const std::vector<RowBand>& bands = places_[tensor].bands;
  const auto after = std::upper_bound(
      bands.begin(), bands.end(), row,
      [](uint64_t r, const RowBand& band) { return r < band.row_begin; });
  if (after != bands.begin() && row < (after - 1)->row_end) return *(after - 1);
  return absl::InternalError(
      absl::StrCat("tensor ", Printable(checkpoint_->tensors()[tensor].name),
                   ": row ", row, " is used but not in the residency plan"));
}

std::optional<PlannedRows::LeftOut> PlannedRows::Announce(
    const WeightStep& step) {
  if (step.tensors.empty() || !has_ranges_) return std::nullopt;
  const std::optional<size_t> step_idx = places_[step.tensors[0]].step_idx;
  // Said twice: at the end of one pass and the beginning of the next.
  if (!step_idx || *step_idx == announced_step_idx_) return std::nullopt;
  const size_t usual_step_idx =
      (announced_step_idx_ + 1) % first_range_idx_of_step_.size();
  announced_step_idx_ = *step_idx;
  return LeftOut{.from_idx = first_range_idx_of_step_[usual_step_idx],
                 .to_idx = first_range_idx_of_step_[*step_idx]};
}

}  // namespace lowmem
