// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/stream_plan.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/ring_choice.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"

namespace lowmem {
namespace {

// The source has two blocks, each of whole pages.
constexpr uint64_t kRoundingBytes = 2 * AlignedBuffer::kAlignmentBytes;

uint64_t SumOrMax(uint64_t a, uint64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<uint64_t>::max());
}

uint64_t LeastBytes(const ResidencyRequest& request) {
  const uint64_t max_row_bytes = MaxRowBytes(request);
  return SumOrMax(
      SumOrMax(LeastResidentBytes(request), kRoundingBytes),
      StreamBufferBytes(ChooseRing(0, max_row_bytes, 0), max_row_bytes));
}

uint64_t MostBytes(const ResidencyRequest& request) {
  const uint64_t max_row_bytes = MaxRowBytes(request);
  uint64_t num_bytes =
      kRoundingBytes +
      StreamBufferBytes(ChooseRing(kNoBudget - 1, max_row_bytes, 0),
                        max_row_bytes);
  const auto add = [&num_bytes](const std::vector<TensorUse>& uses) {
    for (const TensorUse& use : uses) {
      num_bytes = SumOrMax(num_bytes, ResidencyPlan::kAlignmentBytes);
      // Rows of a file that exists: no overflow.
      num_bytes = SumOrMax(num_bytes, use.num_rows * use.row_bytes);
    }
  };
  for (const auto& step : request.steps) add(step);
  add(request.looked_up);
  return num_bytes;
}

}  // namespace

ResidencyRequest DescribeModel(const Checkpoint& checkpoint,
                               const ModelWeights& weights) {
  return DescribeSteps(checkpoint, weights.Steps(), {weights.embedding});
}

StreamBounds BoundsOfStream(const Checkpoint& checkpoint,
                            const ModelWeights& weights) {
  const ResidencyRequest request = DescribeModel(checkpoint, weights);
  return {.least_bytes = LeastBytes(request), .most_bytes = MostBytes(request)};
}

absl::StatusOr<StreamPlan> PlanStream(const Checkpoint& checkpoint,
                                      const ModelWeights& weights,
                                      std::optional<uint64_t> available_bytes) {
  ResidencyRequest request = DescribeModel(checkpoint, weights);
  const uint64_t max_row_bytes = MaxRowBytes(request);
  const uint64_t least_bytes = LeastBytes(request);
  if (available_bytes && *available_bytes < least_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "stream: expected at least ", FormatBytes(least_bytes),
        " for norms and read buffers, got ", FormatBytes(*available_bytes)));
  }
  StreamPlan plan;
  request.available_bytes =
      available_bytes ? *available_bytes - kRoundingBytes : kNoBudget;
  plan.ring = ChooseRing(request);
  request.ring_bytes = StreamBufferBytes(plan.ring, max_row_bytes);
  if (!available_bytes) {
    request.available_bytes =
        SumOrMax(LeastResidentBytes(request), request.ring_bytes);
  }
  LOWMEM_ASSIGN_OR_RETURN(plan.residency, PlanResidency(request));
  return plan;
}

IoMethod IoMethodOf(Io io) {
  switch (io) {
    case Io::kAuto:
      return IoMethod::kAuto;
    case Io::kUring:
      return IoMethod::kUring;
    case Io::kPread:
      return IoMethod::kDirectPread;
    case Io::kBuffered:
      return IoMethod::kBuffered;
  }
  return IoMethod::kAuto;
}

absl::StatusOr<StreamPlan> PlanAllResident(const Checkpoint& checkpoint,
                                           const ModelWeights& weights) {
  ResidencyRequest request = DescribeModel(checkpoint, weights);
  request.available_bytes = std::numeric_limits<uint64_t>::max();
  StreamPlan plan;
  LOWMEM_ASSIGN_OR_RETURN(plan.residency, PlanResidency(request));
  return plan;
}

}  // namespace lowmem
