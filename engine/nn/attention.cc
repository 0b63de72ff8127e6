// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/attention.h"

#include "engine/nn/attend.h"
#include "engine/nn/key_outliers.h"
#include "engine/nn/linear.h"
#include "engine/nn/rope.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Encodes the chunk's keys and values, [num_tokens, num_kv_heads, head_dim], to
// their places in the cache.
void StoreKeysAndValues(const PassContext& pass, uint32_t layer_idx,
                        const Chunk& chunk, const Activations& act,
                        KvCache& kv) {
  const uint32_t num_kv_heads = kv.shape().num_kv_heads;
  const size_t head_dim = kv.shape().head_dim;
  pass.ForEachToken(chunk.num_tokens, [&](size_t t) {
    const auto pos = static_cast<uint32_t>(chunk.first_pos + t);
    for (uint32_t h = 0; h < num_kv_heads; ++h) {
      const size_t ofs = (t * num_kv_heads + h) * head_dim;
      kv.Store(layer_idx, h, pos, &act.k[ofs], &act.v[ofs]);
    }
  });
}

}  // namespace

absl::Status RunAttention(PassContext& pass, const ModelConfig& config,
                          const LayerTensors& layer, uint32_t layer_idx,
                          const Chunk& chunk, uint32_t first_slow_pair,
                          Activations& act, KvCache& kv) {
  const size_t num_tokens = chunk.num_tokens;
  LOWMEM_RETURN_IF_ERROR(Linear(pass,
                                {{layer.q_proj, layer.q_bias, act.q.data()},
                                 {layer.k_proj, layer.k_bias, act.k.data()},
                                 {layer.v_proj, layer.v_bias, act.v.data()}},
                                act.normed.data(), num_tokens, act.vector));
  const auto rotate = [&](uint32_t num_heads, float* rows) {
    RotateHeads(pass, config.rope.neighbour_pairs, act.rope_cos.data(),
                act.rope_sin.data(), num_tokens, num_heads, config.head_dim,
                rows);
  };
  rotate(config.num_heads, act.q.data());
  rotate(config.num_kv_heads, act.k.data());
  const KvFormat format = kv.shape().format;
  if (format != KvFormat::kF32 && layer.k_bias.has_value()) {
    LOWMEM_RETURN_IF_ERROR(DecodeVector(pass, *layer.k_bias, act.vector));
    SubtractSlowBias(pass, config, first_slow_pair, act.vector.data(),
                     num_tokens, act.k.data());
  }
  if (format == KvFormat::kQ8) {
    SpreadOutliers(pass, config, num_tokens, act.q.data(), act.k.data());
  }
  StoreKeysAndValues(pass, layer_idx, chunk, act, kv);
  LOWMEM_RETURN_IF_ERROR(Attend(pass, config, layer_idx, chunk, act.q.data(),
                                kv, act.scores, act.attended.data()));
  return Linear(pass, {{layer.o_proj, layer.o_bias, act.normed.data()}},
                act.attended.data(), num_tokens, act.vector);
}

}  // namespace lowmem
