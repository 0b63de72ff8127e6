// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/key_outliers.h"

#include "quant/hadamard.h"

namespace lowmem {

uint32_t FirstSlowPair(absl::Span<const float> inv_freq,
                       uint32_t max_context_tokens) {
  size_t pair = inv_freq.size();
  while (pair > 0 &&
         inv_freq[pair - 1] * static_cast<float>(max_context_tokens) < 1.0f) {
    --pair;
  }
  return static_cast<uint32_t>(pair);
}

void SubtractSlowBias(const PassContext& pass, const ModelConfig& config,
                      uint32_t first_slow_pair, const float* key_bias,
                      size_t num_tokens, float* keys) {
  const uint32_t num_pairs = config.head_dim / 2;
  const uint32_t kv_dim = config.kv_dim();
  pass.ForEachToken(num_tokens, [&](size_t t) {
    float* token_keys = keys + t * kv_dim;
    for (uint32_t i = 0; i < kv_dim; ++i) {
      const uint32_t element = i % config.head_dim;
      const uint32_t pair =
          config.rope.neighbour_pairs ? element / 2 : element % num_pairs;
      if (pair >= first_slow_pair) token_keys[i] -= key_bias[i];
    }
  });
}

void SpreadOutliers(const PassContext& pass, const ModelConfig& config,
                    size_t num_tokens, float* queries, float* keys) {
  const size_t head_dim = config.head_dim;
  const float query_scale = 1.0f / static_cast<float>(HadamardRun(head_dim));
  pass.ForEachToken(num_tokens, [&](size_t t) {
    for (size_t h = 0; h < config.num_heads; ++h) {
      Hadamard(head_dim, query_scale,
               queries + (t * config.num_heads + h) * head_dim);
    }
    for (size_t h = 0; h < config.num_kv_heads; ++h) {
      Hadamard(head_dim, 1.0f, keys + (t * config.num_kv_heads + h) * head_dim);
    }
  });
}

}  // namespace lowmem
