// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "engine/nn/key_outliers.h"
#include "engine/nn/linear.h"
#include "engine/nn/rope.h"
#include "quant/kv_rows.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Multiplications that are worth handing to another thread: about 10
// microseconds, several times what waking one costs.
constexpr uint64_t kProductsPerGrain = uint64_t{1} << 17;

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

// One query head over the positions [0, num_pos).
void AttendHead(const KvCache& kv, uint32_t layer_idx, uint32_t kv_head_idx,
                uint32_t num_pos, const float* q, float scale, float* scores,
                float* out) {
  const size_t head_dim = kv.shape().head_dim;
  const KvFormat format = kv.shape().format;
  constexpr uint32_t kPageTokens = KvCache::kPageTokens;
  for (uint32_t pos = 0; pos < num_pos; pos += kPageTokens) {
    DotKeys(format, q, kv.KeyPage(layer_idx, kv_head_idx, pos / kPageTokens),
            std::min(kPageTokens, num_pos - pos), head_dim, scale,
            scores + pos);
  }
  Softmax(num_pos, scores);
  std::fill_n(out, head_dim, 0.0f);
  for (uint32_t pos = 0; pos < num_pos; pos += kPageTokens) {
    AddWeightedValues(format, scores + pos,
                      kv.ValuePage(layer_idx, kv_head_idx, pos / kPageTokens),
                      std::min(kPageTokens, num_pos - pos), head_dim, out);
  }
}

}  // namespace

absl::Status Attend(const PassContext& pass, const ModelConfig& config,
                    uint32_t layer_idx, const Chunk& chunk, const float* q,
                    const KvCache& kv, absl::Span<float> scores, float* out) {
  const size_t num_heads = config.num_heads;
  const size_t head_dim = config.head_dim;
  const size_t group_size = num_heads / config.num_kv_heads;
  const auto scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  const size_t scores_per_thread = scores.size() / pass.pool.num_threads();
  const uint64_t products_per_item =
      2 * uint64_t{chunk.first_pos + chunk.num_tokens} * head_dim;
  const size_t grain = static_cast<size_t>(
      std::max<uint64_t>(1, kProductsPerGrain / products_per_item));

  // The flag may be taken back before this thread looks at it again; what was
  // left out must be known all the same.
  std::atomic<bool> stopped = false;
  pass.pool.ParallelFor(
      chunk.num_tokens * num_heads, grain,
      [&](size_t begin, size_t end, size_t thread_idx) {
        float* thread_scores = scores.data() + thread_idx * scores_per_thread;
        for (size_t item = begin; item < end; ++item) {
          if (pass.Cancelled()) {
            stopped.store(true, std::memory_order_relaxed);
            return;
          }
          // Neighbouring items share a key-value head, which then stays in
          // cache.
          const size_t g = item % group_size;
          const size_t t = item / group_size % chunk.num_tokens;
          const size_t kv_head_idx = item / group_size / chunk.num_tokens;
          const size_t ofs =
              (t * num_heads + kv_head_idx * group_size + g) * head_dim;
          AttendHead(kv, layer_idx, static_cast<uint32_t>(kv_head_idx),
                     static_cast<uint32_t>(chunk.first_pos + t + 1), q + ofs,
                     scale, thread_scores, out + ofs);
        }
      });
  return stopped.load(std::memory_order_relaxed)
             ? absl::CancelledError("interrupted")
             : absl::OkStatus();
}

absl::Status RunAttention(PassContext& pass, const ModelConfig& config,
                          const LayerTensors& layer, uint32_t layer_idx,
                          const Chunk& chunk, uint32_t first_slow_pair,
                          Activations& act, KvCache& kv) {
  const size_t num_tokens = chunk.num_tokens;
  const float* x = act.normed.data();
  LOWMEM_RETURN_IF_ERROR(Linear(pass, layer.q_proj, layer.q_bias, x, num_tokens,
                                act.vector, act.q.data()));
  LOWMEM_RETURN_IF_ERROR(Linear(pass, layer.k_proj, layer.k_bias, x, num_tokens,
                                act.vector, act.k.data()));
  const auto rotate = [&](uint32_t num_heads, float* rows) {
    RotateHeads(pass, config.rope.neighbour_pairs, act.rope_cos.data(),
                act.rope_sin.data(), num_tokens, num_heads, config.head_dim,
                rows);
  };
  rotate(config.num_heads, act.q.data());
  rotate(config.num_kv_heads, act.k.data());
  const KvFormat format = kv.shape().format;
  if (format != KvFormat::kF32 && layer.k_bias.has_value()) {
    // The projection left it in act.vector.
    SubtractSlowBias(pass, config, first_slow_pair, act.vector.data(),
                     num_tokens, act.k.data());
  }
  if (format == KvFormat::kQ8) {
    SpreadOutliers(pass, config, num_tokens, act.q.data(), act.k.data());
  }
  LOWMEM_RETURN_IF_ERROR(Linear(pass, layer.v_proj, layer.v_bias, x, num_tokens,
                                act.vector, act.v.data()));
  StoreKeysAndValues(pass, layer_idx, chunk, act, kv);
  LOWMEM_RETURN_IF_ERROR(Attend(pass, config, layer_idx, chunk, act.q.data(),
                                kv, act.scores, act.attended.data()));
  return Linear(pass, layer.o_proj, layer.o_bias, act.attended.data(),
                num_tokens, act.vector, act.normed.data());
}

}  // namespace lowmem
