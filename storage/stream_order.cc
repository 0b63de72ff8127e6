// SPDX-License-Identifier: Apache-2.0
#include "storage/stream_order.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "storage/block_file.h"

namespace lowmem {
namespace {

TensorUse UseOf(const Checkpoint& checkpoint, TensorId tensor) {
  const TensorInfo& info = checkpoint.tensors()[tensor];
  TensorUse use;
  use.tensor = tensor;
  use.num_rows = info.num_rows();
  use.row_bytes = use.num_rows == 0 ? 0 : info.row_bytes();
  use.may_stream = info.shape.size() >= 2;
  return use;
}

// Cuts a use into equal bands of at most `band_bytes`, or of a row.
void AddBands(const TensorUse& use, uint64_t band_bytes,
              std::vector<TensorUse>& uses) {
  const uint64_t rows_per_band =
      std::max<uint64_t>(1, band_bytes / std::max<uint64_t>(1, use.row_bytes));
  const uint64_t num_bands = use.may_stream && use.num_rows > rows_per_band
                                 ? (use.num_rows - 1) / rows_per_band + 1
                                 : 1;
  uint64_t row = 0;
  for (uint64_t i = 0; i < num_bands; ++i) {
    TensorUse& band = uses.emplace_back(use);
    band.row_begin = row;
    band.num_rows = (use.num_rows - row) / (num_bands - i);
    row += band.num_rows;
  }
}

// Calls visit(tensor) for those of all steps and those that are looked up.
template <typename Plan, typename Visit>
void ForEachTensor(const Plan& plan, Visit visit) {
  for (const auto& step : plan.steps) {
    for (const auto& tensor : step) visit(tensor);
  }
  for (const auto& tensor : plan.looked_up) visit(tensor);
}

template <typename Plan>
uint64_t MaxRowBytesOf(const Plan& plan) {
  uint64_t max_bytes = 0;
  ForEachTensor(plan, [&](const auto& tensor) {
    max_bytes = std::max(max_bytes, tensor.row_bytes);
  });
  return max_bytes;
}

}  // namespace

StreamRange RangeOfRows(const TensorInfo& info, TensorId tensor,
                        uint64_t row_begin, uint64_t row_end) {
  StreamRange range;
  range.tensor = tensor;
  range.row_begin = row_begin;
  range.row_end = row_end;
  range.row_bytes = info.row_bytes();
  range.file_idx = info.file_idx;
  const uint64_t first_ofs = info.file_ofs + row_begin * range.row_bytes;
  range.skip_bytes = first_ofs % BlockFile::kBlockBytes;
  range.base_ofs = first_ofs - range.skip_bytes;
  range.num_bytes = range.RowPosition(row_end);
  return range;
}

std::vector<StreamRange> StreamedRanges(const Checkpoint& checkpoint,
                                        const ResidencyPlan& plan) {
  std::vector<StreamRange> ranges;
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& tensor : step) {
      if (tensor.streamed_bytes() == 0) continue;
      ranges.push_back(RangeOfRows(checkpoint.tensors()[tensor.tensor],
                                   tensor.tensor,
                                   tensor.row_begin + tensor.resident_rows,
                                   tensor.row_begin + tensor.num_rows));
    }
  }
  return ranges;
}

std::vector<StreamRange> ResidentRanges(const Checkpoint& checkpoint,
                                        const ResidencyPlan& plan) {
  std::vector<StreamRange> ranges;
  ForEachTensor(plan, [&](const TensorPlacement& tensor) {
    if (tensor.resident_bytes() == 0) return;
    ranges.push_back(RangeOfRows(checkpoint.tensors()[tensor.tensor],
                                 tensor.tensor, tensor.row_begin,
                                 tensor.row_begin + tensor.resident_rows));
  });
  std::sort(ranges.begin(), ranges.end(),
            [](const StreamRange& a, const StreamRange& b) {
              return std::pair(a.file_idx, a.base_ofs + a.skip_bytes) <
                     std::pair(b.file_idx, b.base_ofs + b.skip_bytes);
            });
  return ranges;
}

ResidencyRequest DescribeSteps(const Checkpoint& checkpoint,
                               absl::Span<const WeightStep> steps,
                               absl::Span<const TensorId> looked_up,
                               uint64_t band_bytes) {
  ResidencyRequest request;
  absl::flat_hash_set<TensorId> seen;
  for (const WeightStep& step : steps) {
    auto& uses = request.steps.emplace_back();
    for (const TensorId tensor : step.tensors) {
      AddBands(UseOf(checkpoint, tensor), band_bytes, uses);
      seen.insert(tensor);
    }
  }
  for (const TensorId tensor : looked_up) {
    if (!seen.insert(tensor).second) continue;
    request.looked_up.push_back(UseOf(checkpoint, tensor));
  }
  return request;
}

uint64_t MaxRowBytes(const ResidencyRequest& request) {
  return MaxRowBytesOf(request);
}
uint64_t MaxRowBytes(const ResidencyPlan& plan) { return MaxRowBytesOf(plan); }

}  // namespace lowmem
