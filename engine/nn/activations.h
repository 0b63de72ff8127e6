// SPDX-License-Identifier: Apache-2.0
// The buffers of a forward pass, cut from one arena. All are float32; rows of a
// buffer are contiguous and as wide as its last dimension.

#ifndef LOWMEM_ENGINE_NN_ACTIVATIONS_H_
#define LOWMEM_ENGINE_NN_ACTIVATIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model_config.h"
#include "storage/base/arena.h"
#include "storage/base/memory_account.h"

namespace lowmem {

struct ActivationLimits {
  uint32_t chunk_tokens = 0;    // tokens that go through a layer together
  uint32_t context_tokens = 0;  // positions a token may attend to
  uint64_t logit_bytes = 0;     // at least one row is held all the same
  uint32_t num_threads = 1;     // that multiply
};

// Ownership: owns the arena; movable, and the spans stay valid.
// Thread safety: none of its own.
// Memory: BytesFor, charged once to the account given to Create.
struct Activations {
  // Tokens whose logits are computed together: a pass over the head serves all
  // of them. Bounded by bytes, because a row of logits may be a megabyte.
  static uint32_t LogitTokens(const ModelConfig& config,
                              const ActivationLimits& limits);
  // Errors: kResourceExhausted when the sizes overflow.
  static absl::StatusOr<uint64_t> BytesFor(const ModelConfig& config,
                                           const ActivationLimits& limits);
  // Errors: kResourceExhausted.
  static absl::StatusOr<Activations> Create(const ModelConfig& config,
                                            const ActivationLimits& limits,
                                            MemoryAccount& account);

  ActivationLimits limits;
  uint32_t logit_tokens = 0;

  absl::Span<float> residual;  // [chunk_tokens, dim]
  // Input of a block after its norm, then the block's output.
  absl::Span<float> normed;    // [chunk_tokens, dim]
  absl::Span<float> q;         // [chunk_tokens, q_dim]
  absl::Span<float> k;         // [chunk_tokens, kv_dim]
  absl::Span<float> v;         // [chunk_tokens, kv_dim]
  absl::Span<float> attended;  // [chunk_tokens, q_dim]
  absl::Span<float> gate;      // [chunk_tokens, ff_dim]
  absl::Span<float> up;        // [chunk_tokens, ff_dim]
  absl::Span<float> rope_cos;  // [chunk_tokens, head_dim / 2]
  absl::Span<float> rope_sin;  // [chunk_tokens, head_dim / 2]
  absl::Span<float> scores;    // [ScoreFloats of attend.h]
  // A norm's weight or a bias, decoded: as long as the longest.
  absl::Span<float> vector;
  absl::Span<float> logits;  // [logit_tokens, vocab_size]
  // As MatMulWorkers wants it: for each thread.
  absl::Span<float> matmul_scratch;

  Arena arena;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_ACTIVATIONS_H_
