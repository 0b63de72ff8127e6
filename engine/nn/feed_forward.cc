// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/feed_forward.h"

#include "engine/nn/linear.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {

absl::Status RunFeedForward(PassContext& pass, const ModelConfig& config,
                            const LayerTensors& layer, size_t num_tokens,
                            Activations& act) {
  const size_t ff_dim = config.ff_dim;
  LOWMEM_RETURN_IF_ERROR(
      Linear(pass,
             {{layer.gate_proj, layer.gate_bias, act.gate.data()},
              {layer.up_proj, layer.up_bias, act.up.data()}},
             act.normed.data(), num_tokens, act.vector));
  pass.ForEachToken(num_tokens, [&](size_t t) {
    SiluMul(&act.up[t * ff_dim], ff_dim, &act.gate[t * ff_dim]);
  });
  return Linear(pass, {{layer.down_proj, layer.down_bias, act.normed.data()}},
                act.gate.data(), num_tokens, act.vector);
}

}  // namespace lowmem
