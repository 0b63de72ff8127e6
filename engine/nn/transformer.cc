// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/transformer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/nn/activations.h"
#include "engine/nn/attention.h"
#include "engine/nn/embedding.h"
#include "engine/nn/feed_forward.h"
#include "engine/nn/key_outliers.h"
#include "engine/nn/linear.h"
#include "engine/nn/pass_context.h"
#include "engine/nn/rope.h"
#include "quant/vector_ops.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

absl::StatusOr<ActivationLimits> LimitsOf(const TransformerOptions& options,
                                          size_t num_threads) {
  if (options.max_chunk_tokens == 0 || options.max_context_tokens == 0) {
    return absl::InvalidArgumentError(
        "transformer: chunk and context: expected at least one token");
  }
  ActivationLimits limits;
  limits.chunk_tokens =
      std::min(options.max_chunk_tokens, options.max_context_tokens);
  limits.context_tokens = options.max_context_tokens;
  limits.logit_bytes = options.max_logit_bytes;
  limits.num_threads = static_cast<uint32_t>(num_threads);
  return limits;
}

class DenseTransformer final : public Transformer {
 public:
  DenseTransformer(const ModelConfig& config, const ModelWeights& weights,
                   const PassContext& pass, Activations act)
      : config_(config),
        weights_(weights),
        steps_(weights.Steps()),
        inv_freq_(InverseFrequencies(config.rope, config.head_dim)),
        first_slow_pair_(FirstSlowPair(inv_freq_, config.max_context_tokens)),
        pass_(pass),
        act_(std::move(act)) {}

  absl::Status Forward(absl::Span<const int32_t> ids, LogitsFor logits_for,
                       const std::atomic<bool>* cancel, KvCache& kv,
                       ForwardObserver& observer) override {
    LOWMEM_RETURN_IF_ERROR(CheckRequest(ids, kv));
    pass_.cancel = cancel;
    pass_.source.SetCancel(cancel);
    const absl::Status status = RunChunks(ids, logits_for, kv, observer);
    pass_.source.SetCancel(nullptr);
    return status;
  }

  uint64_t num_weight_passes() const override { return num_weight_passes_; }
  uint64_t weight_bytes_read() const override {
    return pass_.weight_bytes_read;
  }
  uint64_t arena_bytes() const override { return act_.arena.size_bytes(); }

 private:
  absl::Status RunChunks(absl::Span<const int32_t> ids, LogitsFor logits_for,
                         KvCache& kv, ForwardObserver& observer) {
    while (!ids.empty()) {
      const auto now =
          ids.first(std::min<size_t>(ids.size(), act_.limits.chunk_tokens));
      ids.remove_prefix(now.size());
      // The last token of all is in the last chunk.
      const LogitsFor chunk_logits_for =
          logits_for == LogitsFor::kLastToken && !ids.empty() ? LogitsFor::kNone
                                                              : logits_for;
      const absl::Status status = RunChunk(now, chunk_logits_for, kv, observer);
      if (!status.ok()) {
        kv.Truncate(kv.size());  // gives back what was reserved for the chunk
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckRequest(absl::Span<const int32_t> ids,
                            const KvCache& kv) const {
    const KvShape& shape = kv.shape();
    if (shape.num_layers != config_.num_layers ||
        shape.num_kv_heads != config_.num_kv_heads ||
        shape.head_dim != config_.head_dim) {
      return absl::InternalError("transformer: the cache is of another model");
    }
    if (ids.empty()) {
      return absl::InvalidArgumentError(
          "prompt: expected at least one token, got none");
    }
    for (const int32_t id : ids) {
      if (id >= 0 && static_cast<uint32_t>(id) < config_.vocab_size) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("token id: expected less than the vocabulary's ",
                       config_.vocab_size, " and not negative, got ", id));
    }
    const uint32_t max_tokens =
        std::min(act_.limits.context_tokens, kv.max_tokens());
    if (kv.size() > max_tokens || ids.size() > max_tokens - kv.size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "context: no room for ", ids.size(), " more tokens after ", kv.size(),
          "; expected at most ", max_tokens, " in all"));
    }
    return absl::OkStatus();
  }

  // One pass over the weights.
  absl::Status RunChunk(absl::Span<const int32_t> ids, LogitsFor logits_for,
                        KvCache& kv, ForwardObserver& observer) {
    const Chunk chunk = {.first_pos = kv.size(),
                         .num_tokens = static_cast<uint32_t>(ids.size())};
    const bool is_head_used = logits_for != LogitsFor::kNone;
    LOWMEM_RETURN_IF_ERROR(kv.Reserve(chunk.num_tokens));
    pass_.source.Prefetch(steps_.front());
    LOWMEM_RETURN_IF_ERROR(
        EmbedTokens(pass_, weights_.embedding, ids, act_.residual.data()));
    ComputeRopeAngles(pass_, chunk, inv_freq_, act_.rope_cos.data(),
                      act_.rope_sin.data());
    for (uint32_t i = 0; i < config_.num_layers; ++i) {
      LOWMEM_RETURN_IF_ERROR(ShowHidden(i, chunk, observer));
      const bool is_last = i + 1 == config_.num_layers;
      pass_.source.Prefetch(!is_last || is_head_used ? steps_[i + 1]
                                                     : steps_.front());
      LOWMEM_RETURN_IF_ERROR(RunLayer(i, chunk, kv));
    }
    LOWMEM_RETURN_IF_ERROR(ShowHidden(config_.num_layers, chunk, observer));
    ++num_weight_passes_;
    if (is_head_used || observer.WantsHidden()) {
      // Most often the next token follows, and begins with the first layer.
      pass_.source.Prefetch(steps_.front());
      LOWMEM_RETURN_IF_ERROR(RunHead(chunk, logits_for, observer));
    }
    kv.Advance(chunk.num_tokens);
    return absl::OkStatus();
  }

  absl::Status RunLayer(uint32_t layer_idx, const Chunk& chunk, KvCache& kv) {
    const LayerTensors& layer = weights_.layers[layer_idx];
    LOWMEM_RETURN_IF_ERROR(Norm(layer.attention_norm, 0, chunk.num_tokens));
    LOWMEM_RETURN_IF_ERROR(RunAttention(pass_, config_, layer, layer_idx, chunk,
                                        first_slow_pair_, act_, kv));
    AddToResidual(chunk);
    LOWMEM_RETURN_IF_ERROR(Norm(layer.feed_forward_norm, 0, chunk.num_tokens));
    LOWMEM_RETURN_IF_ERROR(
        RunFeedForward(pass_, config_, layer, chunk.num_tokens, act_));
    AddToResidual(chunk);
    return absl::OkStatus();
  }

  // Final norm and logits, for as few tokens as are asked for.
  absl::Status RunHead(const Chunk& chunk, LogitsFor logits_for,
                       ForwardObserver& observer) {
    const uint32_t num_tokens = chunk.num_tokens;
    uint32_t first_idx = num_tokens;
    if (logits_for == LogitsFor::kLastToken) first_idx = num_tokens - 1;
    if (logits_for == LogitsFor::kEveryToken) first_idx = 0;
    const uint32_t first_normed = observer.WantsHidden() ? 0 : first_idx;
    LOWMEM_RETURN_IF_ERROR(
        Norm(weights_.final_norm, first_normed, num_tokens - first_normed));
    if (observer.WantsHidden()) {
      LOWMEM_RETURN_IF_ERROR(observer.OnFinalNorm(
          chunk.first_pos,
          act_.normed.first(size_t{num_tokens} * config_.dim)));
    }
    for (uint32_t i = first_idx; i < num_tokens; i += act_.logit_tokens) {
      const uint32_t tile_tokens = std::min(act_.logit_tokens, num_tokens - i);
      LOWMEM_RETURN_IF_ERROR(Linear(
          pass_, {{weights_.head, std::nullopt, act_.logits.data()}},
          &act_.normed[size_t{i} * config_.dim], tile_tokens, act_.vector));
      for (uint32_t k = 0; k < tile_tokens; ++k) {
        LOWMEM_RETURN_IF_ERROR(
            ShowLogits(uint64_t{chunk.first_pos} + i + k, k, observer));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ShowLogits(uint64_t pos, size_t tile_idx,
                          ForwardObserver& observer) {
    const absl::Span<const float> logits =
        act_.logits.subspan(tile_idx * config_.vocab_size, config_.vocab_size);
    if (!AllFinite(logits.data(), logits.size())) {
      return absl::DataLossError(
          absl::StrCat(pass_.checkpoint.path(), ": logits of position ", pos,
                       ": expected finite numbers; the weights are damaged or "
                       "exceed float32"));
    }
    return observer.OnLogits(pos, logits);
  }

  absl::Status ShowHidden(uint32_t layer_idx, const Chunk& chunk,
                          ForwardObserver& observer) {
    if (!observer.WantsHidden()) return absl::OkStatus();
    return observer.OnHidden(
        layer_idx, chunk.first_pos,
        act_.residual.first(size_t{chunk.num_tokens} * config_.dim));
  }

  absl::Status Norm(TensorId weight, size_t first_token, size_t num_tokens) {
    const size_t ofs = first_token * config_.dim;
    return NormTokens(pass_, weight, config_.norm_epsilon, config_.dim,
                      act_.residual.data() + ofs, num_tokens, act_.vector,
                      act_.normed.data() + ofs);
  }

  void AddToResidual(const Chunk& chunk) {
    AddTokens(pass_, act_.normed.data(), chunk.num_tokens, config_.dim,
              act_.residual.data());
  }

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const std::vector<WeightStep> steps_;  // a layer each, then the head
  const std::vector<float> inv_freq_;    // [head_dim / 2]
  const uint32_t first_slow_pair_;
  PassContext pass_;
  Activations act_;
  uint64_t num_weight_passes_ = 0;
};

}  // namespace

absl::Status ForwardObserver::OnHidden(uint32_t, uint64_t,
                                       absl::Span<const float>) {
  return absl::OkStatus();
}

absl::Status ForwardObserver::OnFinalNorm(uint64_t, absl::Span<const float>) {
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Transformer::ActivationBytes(
    const ModelConfig& config, const TransformerOptions& options,
    uint32_t num_threads) {
  LOWMEM_ASSIGN_OR_RETURN(const ActivationLimits limits,
                          LimitsOf(options, num_threads));
  return Activations::BytesFor(config, limits);
}

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(
    const ModelConfig& config, const Checkpoint& checkpoint,
    const ModelWeights& weights, WeightSource& source, ThreadPool& pool,
    const TransformerOptions& options, MemoryAccount& account) {
  LOWMEM_ASSIGN_OR_RETURN(const ActivationLimits limits,
                          LimitsOf(options, pool.num_threads()));
  LOWMEM_ASSIGN_OR_RETURN(Activations act,
                          Activations::Create(config, limits, account));
  const PassContext pass = {.checkpoint = checkpoint,
                            .source = source,
                            .pool = pool,
                            .matmul_scratch = act.matmul_scratch};
  return std::make_unique<DenseTransformer>(config, weights, pass,
                                            std::move(act));
}

}  // namespace lowmem
