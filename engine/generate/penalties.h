// SPDX-License-Identifier: Apache-2.0
// Logits made smaller for tokens that occurred before. Repetition as in
// transformers' RepetitionPenaltyLogitsProcessor, over prompt and answer;
// presence and frequency as OpenAI's API defines them, over the answer.

#ifndef LOWMEM_ENGINE_GENERATE_PENALTIES_H_
#define LOWMEM_ENGINE_GENERATE_PENALTIES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "engine/generate/sampling_plan.h"

namespace lowmem {

// Thread safety: one thread at a time.
// Memory: 8 to 16 bytes a distinct token of the sequence; nothing when no
// penalty is active.
class TokenPenalties {
 public:
  TokenPenalties(const PenaltyPlan& plan, absl::Span<const int32_t> prompt_ids);

  // A token of the answer.
  void Add(int32_t id);

  // Changes `logits` [vocab_size]. Ids outside it are passed over; a result
  // beyond float's range becomes the largest finite value of its sign.
  void Apply(absl::Span<float> logits) const;

  bool active() const { return plan_.active(); }

 private:
  const PenaltyPlan plan_;
  // Every token of the sequence, with how often the answer has it.
  absl::flat_hash_map<int32_t, uint32_t> answer_count_by_id_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_PENALTIES_H_
