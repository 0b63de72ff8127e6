// SPDX-License-Identifier: Apache-2.0
#include "storage/ring_choice.h"

#include <algorithm>
#include <iterator>

#include "storage/base/units.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"

namespace lowmem {
namespace {

// From the smallest on.
constexpr StreamRingShape kShapes[] = {{4, 64 * kKiB},
                                       {4, 128 * kKiB},
                                       {4, 256 * kKiB},
                                       {8, 256 * kKiB},
                                       {16, 256 * kKiB}};
constexpr StreamRingShape kShapeWithoutBudget = {8, kMiB};

// The part of what is available that the ring takes at most; the larger one as
// long as it is a small part of what streams.
constexpr uint64_t kRingPart = 8;
constexpr uint64_t kRingPartOfLittle = 2;
constexpr uint64_t kRingPartOfStream = 48;
// More buffers are no use, larger ones hold a large row as well.
constexpr uint64_t kMaxBuffers = 64;

// Room for `num_rows` of the largest rows and a buffer that is being filled.
StreamRingShape Widened(StreamRingShape shape, uint64_t max_row_bytes,
                        uint64_t num_rows) {
  const uint64_t row_bytes = num_rows * max_row_bytes;
  while ((kMaxBuffers - 1) * shape.buffer_bytes < row_bytes) {
    shape.buffer_bytes *= 2;
  }
  const uint64_t for_rows =
      (row_bytes + shape.buffer_bytes - 1) / shape.buffer_bytes + 1;
  shape.num_buffers =
      std::max(shape.num_buffers, static_cast<uint32_t>(for_rows));
  return shape;
}

}  // namespace

StreamRingShape ChooseRing(uint64_t available_bytes, uint64_t max_row_bytes,
                           uint64_t streamable_bytes) {
  if (available_bytes == kNoBudget) {
    return Widened(kShapeWithoutBudget, max_row_bytes, 2);
  }
  const uint64_t most_bytes =
      std::max(available_bytes / kRingPart,
               std::min(available_bytes / kRingPartOfLittle,
                        streamable_bytes / kRingPartOfStream));
  StreamRingShape chosen = Widened(kShapes[0], max_row_bytes, 1);
  for (const StreamRingShape& shape : kShapes) {
    const StreamRingShape ring = Widened(shape, max_row_bytes, 2);
    if (StreamBufferBytes(ring, max_row_bytes) <= most_bytes) chosen = ring;
  }
  return chosen;
}

StreamRingShape ChooseRing(const ResidencyRequest& request) {
  uint64_t streamable_bytes = 0;  // of files that exist: no overflow
  for (const auto& step : request.steps) {
    for (const TensorUse& use : step) {
      streamable_bytes += use.may_stream ? use.num_rows * use.row_bytes : 0;
    }
  }
  const uint64_t fixed_bytes = LeastResidentBytes(request);
  const uint64_t available_bytes =
      request.available_bytes == kNoBudget
          ? kNoBudget
          : request.available_bytes -
                std::min(fixed_bytes, request.available_bytes);
  return ChooseRing(available_bytes, MaxRowBytes(request), streamable_bytes);
}

}  // namespace lowmem
