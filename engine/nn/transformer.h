// SPDX-License-Identifier: Apache-2.0
// The forward pass: tokens in, logits out, one pass over the weights for each
// chunk of tokens.

#ifndef LOWMEM_ENGINE_NN_TRANSFORMER_H_
#define LOWMEM_ENGINE_NN_TRANSFORMER_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "storage/base/memory_account.h"
#include "storage/base/thread_pool.h"
#include "storage/weight_source.h"

namespace lowmem {

// Receives what a forward pass computes. `first_pos` is the position in the
// sequence of the first row; spans are valid during the call. A status other
// than OK ends the pass with it.
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  // hidden [num_tokens, dim]: the residual stream before layer `layer_idx`;
  // layer_idx == num_layers is the output of the last one. Only called when
  // WantsHidden().
  virtual bool WantsHidden() const { return false; }
  virtual absl::Status OnHidden(uint32_t layer_idx, uint64_t first_pos,
                                absl::Span<const float> hidden);
  // normed [num_tokens, dim], after the final norm. Only when WantsHidden().
  virtual absl::Status OnFinalNorm(uint64_t first_pos,
                                   absl::Span<const float> normed);
  // logits [vocab_size] of one position, in order of position.
  virtual absl::Status OnLogits(uint64_t pos,
                                absl::Span<const float> logits) = 0;
};

enum class LogitsFor : uint8_t { kNone, kLastToken, kEveryToken };

struct TransformerOptions {
  // Tokens that go through a layer together.
  uint32_t max_chunk_tokens = 128;
  // Positions the attention scores must hold: the longest context.
  uint32_t max_context_tokens = 4096;
  // Logits held at once, those of one token at least. A pass over the head
  // serves as many tokens as fit: 21 of SmolLM2, 6 of Qwen2.5. Computing then
  // takes about as long as reading, so more would gain little.
  uint64_t max_logit_bytes = uint64_t{4} << 20;
};

// Memory: one arena, whose size ActivationBytes tells beforehand.
// Thread safety: one thread at a time; the pool does the parallel work.
// Lifetime: everything passed to Create must outlive it.
class Transformer {
 public:
  // For a pool of so many threads.
  static absl::StatusOr<uint64_t> ActivationBytes(
      const ModelConfig& config, const TransformerOptions& options,
      uint32_t num_threads);

  // Errors: kResourceExhausted when `account` refuses the arena; what the
  // source returns.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(
      const ModelConfig& config, const Checkpoint& checkpoint,
      const ModelWeights& weights, WeightSource& source, ThreadPool& pool,
      const TransformerOptions& options, MemoryAccount& account);
  virtual ~Transformer() = default;

  // Appends `ids` to the sequence held in `kv` and computes what `logits_for`
  // asks for. Splits into chunks of max_chunk_tokens. On failure or
  // cancellation the cache is rolled back to the last chunk that was completed.
  // Errors: kInvalidArgument for an id outside the vocabulary; kOutOfRange
  // beyond max_context_tokens; kCancelled soon after `*cancel` became true;
  // kDataLoss when a logit is not finite; what the source returns.
  virtual absl::Status Forward(absl::Span<const int32_t> ids,
                               LogitsFor logits_for,
                               const std::atomic<bool>* cancel, KvCache& kv,
                               ForwardObserver& observer) = 0;

  // Passes over the layers' weights so far; one a chunk.
  virtual uint64_t num_weight_passes() const = 0;
  // Weight bytes handed to the computation so far.
  virtual uint64_t weight_bytes_read() const = 0;
  virtual uint64_t arena_bytes() const = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_TRANSFORMER_H_
