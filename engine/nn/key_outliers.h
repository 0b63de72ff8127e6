// SPDX-License-Identifier: Apache-2.0
// Makes queries and keys fit for keys that are rounded when they are kept.
// Attention stays what it is: only the roundings change.
// - A vector that is the same for all positions may be taken off the keys of a
//   head: every score of a query moves by the same amount, which softmax does
//   not see. That vector is the bias of the key projection in those rotary
//   pairs that hardly turn within the context. Qwen2's biases reach 200 there,
//   where what the tokens add is about 2.
// - For KvFormat::kQ8 queries and keys are transformed by quant/hadamard.h,
// which spreads what
//   outliers are left over the head.
// Measured with KvFormat::kQ8 on Qwen2.5-Coder-0.5B, 562 tokens of English,
// Kullback-Leibler divergence from exact keys and values: 2.5e-2 without
// either, 1.2e-2 with the second, 1.7e-3 with both.

#ifndef LOWMEM_ENGINE_NN_KEY_OUTLIERS_H_
#define LOWMEM_ENGINE_NN_KEY_OUTLIERS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "engine/model/model_config.h"
#include "engine/nn/pass_context.h"

namespace lowmem {

// The pairs from this one on turn by less than a radian within the context the
// model was trained for, so that a vector and its turned self differ by less
// than its length. A constant of the model: whatever else is chosen, results
// are the same.
//   inv_freq  [head_dim / 2]
uint32_t FirstSlowPair(absl::Span<const float> inv_freq,
                       uint32_t max_context_tokens);

// Takes key_bias off the slow pairs of rotated keys.
//   key_bias  [num_kv_heads, head_dim]
//   keys      [num_tokens, num_kv_heads, head_dim]
void SubtractSlowBias(const PassContext& pass, const ModelConfig& config,
                      uint32_t first_slow_pair, const float* key_bias,
                      size_t num_tokens, float* keys);

// Transforms rotated queries and keys; the factor of the transform is taken
// from the queries.
//   queries  [num_tokens, num_heads, head_dim]
//   keys     [num_tokens, num_kv_heads, head_dim]
void SpreadOutliers(const PassContext& pass, const ModelConfig& config,
                    size_t num_tokens, float* queries, float* keys);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_KEY_OUTLIERS_H_
