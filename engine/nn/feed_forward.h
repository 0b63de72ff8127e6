// SPDX-License-Identifier: Apache-2.0
// The gated feed-forward block: down(silu(gate(x)) * up(x)).

#ifndef LOWMEM_ENGINE_NN_FEED_FORWARD_H_
#define LOWMEM_ENGINE_NN_FEED_FORWARD_H_

#include <cstddef>

#include "absl/status/status.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/nn/activations.h"
#include "engine/nn/pass_context.h"

namespace lowmem {

// Reads act.normed, leaves its result there.
// Errors: what the source returns; kCancelled.
absl::Status RunFeedForward(PassContext& pass, const ModelConfig& config,
                            const LayerTensors& layer, size_t num_tokens,
                            Activations& act);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_FEED_FORWARD_H_
