// SPDX-License-Identifier: Apache-2.0
// Causal attention with grouped heads over the pages of the cache.

#ifndef LOWMEM_ENGINE_NN_ATTENTION_H_
#define LOWMEM_ENGINE_NN_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/nn/activations.h"
#include "engine/nn/pass_context.h"

namespace lowmem {

// The attention block of one layer: projections, rotation, new rows of the
// cache, attention, output projection. Reads act.normed and the chunk's rope
// angles, leaves its result in act.normed. `first_slow_pair` is that of
// key_outliers.h. REQUIRES: the cache has room for the
// chunk's positions. Errors: what the source returns; kCancelled.
absl::Status RunAttention(PassContext& pass, const ModelConfig& config,
                          const LayerTensors& layer, uint32_t layer_idx,
                          const Chunk& chunk, uint32_t first_slow_pair,
                          Activations& act, KvCache& kv);

// Attention proper: out = softmax(q k^T / sqrt(head_dim)) v, for each token
// over the positions up to its own, all as the cache keeps them, the chunk's
// own too. Head i reads key-value head i / (num_heads / num_kv_heads). Each
// output is computed by one thread in the order of positions, so it depends
// neither on the chunk nor on the threads.
//   q, out  [chunk.num_tokens, num_heads, head_dim]
//   scores  [num_threads, context], context >= the last position + 1
// Errors: kCancelled.
absl::Status Attend(const PassContext& pass, const ModelConfig& config,
                    uint32_t layer_idx, const Chunk& chunk, const float* q,
                    const KvCache& kv, absl::Span<float> scores, float* out);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_ATTENTION_H_
