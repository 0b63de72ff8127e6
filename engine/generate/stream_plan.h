// SPDX-License-Identifier: Apache-2.0
// How a model is streamed with so much memory: which rows stay, and through
// what ring the others flow. Pure functions of sizes.

#ifndef LOWMEM_ENGINE_GENERATE_STREAM_PLAN_H_
#define LOWMEM_ENGINE_GENERATE_STREAM_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/model/model_weights.h"
#include "lowmem/options.h"
#include "storage/checkpoint.h"
#include "storage/read_queue.h"
#include "storage/residency_plan.h"
#include "storage/stream_ring.h"

namespace lowmem {

// The model's tensors as plans see them, in order of use.
ResidencyRequest DescribeModel(const Checkpoint& checkpoint,
                               const ModelWeights& weights);

struct StreamPlan {
  StreamRingShape ring;
  ResidencyPlan residency;

  // Everything that the source will be charged for.
  uint64_t total_bytes() const {
    return residency.block_bytes + residency.ring_bytes;
  }
};

// What streaming takes at least: norms, biases and the smallest ring; and at
// most: all weights and the usual ring.
struct StreamBounds {
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
};
StreamBounds BoundsOfStream(const Checkpoint& checkpoint,
                            const ModelWeights& weights);

// The plan for `available_bytes`; without a number the usual ring and no
// resident rows but those that may not stream. The more bytes, the more rows
// are resident and the larger the ring, up to the usual one.
// Errors: those of PlanResidency; kResourceExhausted below least_bytes.
absl::StatusOr<StreamPlan> PlanStream(const Checkpoint& checkpoint,
                                      const ModelWeights& weights,
                                      std::optional<uint64_t> available_bytes);

IoMethod IoMethodOf(Io io);

// The plan of a copy: every row is resident, and there is no ring.
absl::StatusOr<StreamPlan> PlanAllResident(const Checkpoint& checkpoint,
                                           const ModelWeights& weights);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_STREAM_PLAN_H_
