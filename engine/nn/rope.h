// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: inverse frequencies with their scaling, the angles
// of a chunk, and the rotation of query and key heads. Reference: transformers
// modeling_rope_utils, whose float32 rounding is followed step by step, since a
// difference in the last bit of a frequency grows with the position.

#ifndef LOWMEM_ENGINE_NN_ROPE_H_
#define LOWMEM_ENGINE_NN_ROPE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/model_config.h"
#include "engine/nn/pass_context.h"

namespace lowmem {

// [head_dim / 2]. Called once a model; uses libm's pow.
// REQUIRES: `rope` is of a proved ModelConfig.
std::vector<float> InverseFrequencies(const RopeConfig& rope,
                                      uint32_t head_dim);

// Cosines and sines of each position of the chunk, once for all layers.
//   inv_freq  [num_pairs]
//   cos, sin  [chunk.num_tokens, num_pairs]
void ComputeRopeAngles(const PassContext& pass, const Chunk& chunk,
                       absl::Span<const float> inv_freq, float* cos,
                       float* sin);

// Rotates every head of every token in place: rows [num_tokens, num_heads,
// head_dim].
void RotateHeads(const PassContext& pass, bool neighbour_pairs,
                 const float* cos, const float* sin, size_t num_tokens,
                 size_t num_heads, size_t head_dim, float* rows);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_ROPE_H_
