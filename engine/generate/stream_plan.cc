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
#include "storage/block_file.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"

namespace lowmem {
namespace {

// The part of what is left that goes to the ring, as long as it is smaller than
// the usual one: a small ring makes every pass slow, a few rows less do not.
constexpr uint64_t kRingShare = 2;
constexpr uint64_t kLeastBufferBytes = 16 * kKiB;
// The source has two blocks, each of whole pages.
constexpr uint64_t kRoundingBytes = 2 * AlignedBuffer::kAlignmentBytes;

// `num_buffers` as usual, of `buffer_bytes`, larger where rows ask for it.
StreamRingShape RingOf(uint64_t buffer_bytes, uint64_t max_row_bytes) {
  StreamRingShape ring;
  const uint64_t least_bytes = max_row_bytes / (ring.num_buffers - 1) + 1;
  ring.buffer_bytes =
      CheckedRoundUp(std::max(buffer_bytes, least_bytes),
                     BlockFile::kBlockBytes)
          .value_or(buffer_bytes);
  return ring;
}

StreamRingShape LeastRing(uint64_t max_row_bytes) {
  return RingOf(kLeastBufferBytes, max_row_bytes);
}

StreamRingShape UsualRing(uint64_t max_row_bytes) {
  return RingOf(StreamRingShape().buffer_bytes, max_row_bytes);
}

// `spare_bytes`: beyond what the least ring and fixed rows take.
StreamRingShape RingFor(uint64_t spare_bytes, uint64_t max_row_bytes) {
  const StreamRingShape least = LeastRing(max_row_bytes);
  const StreamRingShape usual = UsualRing(max_row_bytes);
  const uint64_t more_bytes = spare_bytes / kRingShare / least.num_buffers;
  const uint64_t buffer_bytes =
      std::min(usual.buffer_bytes, least.buffer_bytes + more_bytes);
  return RingOf(buffer_bytes - buffer_bytes % BlockFile::kBlockBytes,
                max_row_bytes);
}

ResidencyRequest RequestOf(const Checkpoint& checkpoint,
                           const ModelWeights& weights) {
  return DescribeSteps(checkpoint, weights.Steps(), {weights.embedding});
}

uint64_t SumOrMax(uint64_t a, uint64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<uint64_t>::max());
}

uint64_t LeastBytes(const ResidencyRequest& request) {
  const uint64_t max_row_bytes = MaxRowBytes(request);
  return SumOrMax(
      SumOrMax(LeastResidentBytes(request), kRoundingBytes),
      StreamBufferBytes(LeastRing(max_row_bytes), max_row_bytes));
}

uint64_t MostBytes(const ResidencyRequest& request) {
  const uint64_t max_row_bytes = MaxRowBytes(request);
  uint64_t num_bytes =
      kRoundingBytes +
      StreamBufferBytes(UsualRing(max_row_bytes), max_row_bytes);
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

StreamBounds BoundsOfStream(const Checkpoint& checkpoint,
                            const ModelWeights& weights) {
  const ResidencyRequest request = RequestOf(checkpoint, weights);
  return {.least_bytes = LeastBytes(request),
          .most_bytes = MostBytes(request)};
}

absl::StatusOr<StreamPlan> PlanStream(const Checkpoint& checkpoint,
                                      const ModelWeights& weights,
                                      std::optional<uint64_t> available_bytes) {
  ResidencyRequest request = RequestOf(checkpoint, weights);
  const uint64_t max_row_bytes = MaxRowBytes(request);
  const uint64_t least_bytes = LeastBytes(request);
  StreamPlan plan;
  if (available_bytes) {
    if (*available_bytes < least_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "stream: expected at least ", FormatBytes(least_bytes),
          " for norms and read buffers, got ", FormatBytes(*available_bytes)));
    }
    plan.ring = RingFor(*available_bytes - least_bytes, max_row_bytes);
    request.available_bytes = *available_bytes - kRoundingBytes;
  } else {
    plan.ring = UsualRing(max_row_bytes);
    request.available_bytes =
        SumOrMax(LeastResidentBytes(request),
                 StreamBufferBytes(plan.ring, max_row_bytes));
  }
  request.ring_bytes = StreamBufferBytes(plan.ring, max_row_bytes);
  LOWMEM_ASSIGN_OR_RETURN(plan.residency, PlanResidency(request));
  return plan;
}

absl::StatusOr<StreamPlan> PlanAllResident(const Checkpoint& checkpoint,
                                           const ModelWeights& weights) {
  ResidencyRequest request = RequestOf(checkpoint, weights);
  request.available_bytes = std::numeric_limits<uint64_t>::max();
  StreamPlan plan;
  LOWMEM_ASSIGN_OR_RETURN(plan.residency, PlanResidency(request));
  return plan;
}

}  // namespace lowmem
