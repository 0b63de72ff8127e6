// SPDX-License-Identifier: Apache-2.0
// Attention proper, over the pages of the cache, with grouped heads.

#ifndef LOWMEM_ENGINE_NN_ATTEND_H_
#define LOWMEM_ENGINE_NN_ATTEND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model_config.h"
#include "engine/nn/pass_context.h"

namespace lowmem {

// Floats that Attend wants for its scores: those of a chunk's tokens over the
// longest context, of as many tokens as are worth their memory.
uint64_t ScoreFloats(const ModelConfig& config, uint32_t chunk_tokens,
                     uint32_t context_tokens);

// out = softmax(q k^T / sqrt(head_dim)) v, for each token of the chunk over the
// positions up to its own, all as the cache keeps them, the chunk's own too.
// Head i reads key-value head i / (num_heads / num_kv_heads). Each number is
// computed in the order of positions, so it depends neither on the chunk nor on
// the threads nor on the room for scores.
//   q, out  [chunk.num_tokens, num_heads, head_dim]
//   scores  at least ScoreFloats(config, 1, last position + 1)
// Errors: kCancelled.
absl::Status Attend(const PassContext& pass, const ModelConfig& config,
                    uint32_t layer_idx, const Chunk& chunk, const float* q,
                    const KvCache& kv, absl::Span<float> scores, float* out);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_ATTEND_H_
