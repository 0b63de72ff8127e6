// SPDX-License-Identifier: Apache-2.0
// How tokens are chosen, with nothing left open: the caller's options, then the
// model's defaults, then neutral values, each proved to lie in its range.

#ifndef LOWMEM_ENGINE_GENERATE_SAMPLING_PLAN_H_
#define LOWMEM_ENGINE_GENERATE_SAMPLING_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lowmem/options.h"

namespace lowmem {

struct PenaltyPlan {
  float repetition = 1.0f;
  float presence = 0.0f;
  float frequency = 0.0f;

  bool active() const {
    return repetition != 1.0f || presence != 0.0f || frequency != 0.0f;
  }
};

struct SamplingPlan {
  PenaltyPlan penalties;
  float temperature = 0.0f;  // 0: argmax, and what follows is not used
  uint32_t top_k = 0;        // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  uint64_t seed = 0;
};

// Errors: kInvalidArgument for a value that is not finite or out of the range
// options.h gives, starting with its name ("top_p: ...").
absl::Status ValidateSampling(const SamplingOptions& options);

// `model_defaults` holds what generation_config.json sets.
// Errors: as ValidateSampling, for `options`. REQUIRES: model_defaults are
// valid.
absl::StatusOr<SamplingPlan> PlanSampling(
    const SamplingOptions& options, const SamplingOptions& model_defaults);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_SAMPLING_PLAN_H_
