// SPDX-License-Identifier: Apache-2.0
// The attention block of a layer.

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

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_ATTENTION_H_
