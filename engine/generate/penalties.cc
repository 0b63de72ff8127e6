// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/penalties.h"

#include <algorithm>
#include <limits>

namespace lowmem {

TokenPenalties::TokenPenalties(const PenaltyPlan& plan,
                               absl::Span<const int32_t> prompt_ids)
    : plan_(plan) {
  if (plan_.repetition == 1.0f) return;  // the prompt matters to it alone
  for (int32_t id : prompt_ids) answer_count_by_id_.try_emplace(id, 0);
}

void TokenPenalties::Add(int32_t id) {
  if (plan_.active()) ++answer_count_by_id_[id];
}

void TokenPenalties::Apply(absl::Span<float> logits) const {
  constexpr float kLargest = std::numeric_limits<float>::max();
  // The order of a hash table is arbitrary; each token is changed on its own,
  // so the result is not.
  for (const auto& [id, answer_count] : answer_count_by_id_) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[id];
    logit = logit > 0 ? logit / plan_.repetition : logit * plan_.repetition;
    if (answer_count > 0) {
      logit -=
          plan_.presence + plan_.frequency * static_cast<float>(answer_count);
    }
    logit = std::clamp(logit, -kLargest, kLargest);
  }
}

}  // namespace lowmem
