// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampling_plan.h"

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Written so that NaN, which compares false with everything, is refused.
absl::Status CheckRange(absl::string_view name, std::optional<float> value,
                        float lowest, float highest) {
  if (!value || (*value >= lowest && *value <= highest))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": out of range; expected ", lowest, " to ", highest,
                   ", got ", *value));
}

template <typename T>
T FirstSet(std::optional<T> first, std::optional<T> second, T neutral) {
  return first ? *first : second.value_or(neutral);
}

}  // namespace

absl::Status ValidateSampling(const SamplingOptions& options) {
  LOWMEM_RETURN_IF_ERROR(
      CheckRange("temperature", options.temperature, 0, 100));
  LOWMEM_RETURN_IF_ERROR(CheckRange("top_p", options.top_p, 0, 1));
  if (options.top_p == 0.0f) {
    return absl::InvalidArgumentError(
        "top_p: out of range; expected above 0, to 1, got 0");
  }
  LOWMEM_RETURN_IF_ERROR(CheckRange("min_p", options.min_p, 0, 1));
  LOWMEM_RETURN_IF_ERROR(
      CheckRange("repetition_penalty", options.repetition_penalty, 0.01f, 100));
  LOWMEM_RETURN_IF_ERROR(
      CheckRange("presence_penalty", options.presence_penalty, -100, 100));
  return CheckRange("frequency_penalty", options.frequency_penalty, -100, 100);
}

absl::StatusOr<SamplingPlan> PlanSampling(
    const SamplingOptions& options, const SamplingOptions& model_defaults) {
  LOWMEM_RETURN_IF_ERROR(ValidateSampling(options));
  SamplingPlan plan;
  plan.seed = options.seed;
  plan.temperature =
      FirstSet(options.temperature, model_defaults.temperature, 0.0f);
  // Some models ship a penalty for their sampling (Qwen2.5: 1.1). The argmax is
  // meant to be of the raw logits, so only what the caller asked for counts
  // there.
  const SamplingOptions none;
  const SamplingOptions& penalty_defaults =
      plan.temperature == 0.0f ? none : model_defaults;
  plan.penalties.repetition = FirstSet(
      options.repetition_penalty, penalty_defaults.repetition_penalty, 1.0f);
  plan.penalties.presence = FirstSet(options.presence_penalty,
                                     penalty_defaults.presence_penalty, 0.0f);
  plan.penalties.frequency = FirstSet(options.frequency_penalty,
                                      penalty_defaults.frequency_penalty, 0.0f);
  plan.top_k = FirstSet(options.top_k, model_defaults.top_k, uint32_t{0});
  plan.top_p = FirstSet(options.top_p, model_defaults.top_p, 1.0f);
  plan.min_p = FirstSet(options.min_p, model_defaults.min_p, 0.0f);
  return plan;
}

}  // namespace lowmem
