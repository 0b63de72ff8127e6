// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/activations.h"

#include <algorithm>
#include <array>

#include "engine/nn/attend.h"
#include "quant/matmul.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

struct Buffer {
  const char* name;
  uint64_t num_floats;
  absl::Span<float> Activations::*span;
};

// No product overflows: dimensions are at most 2^20, tokens and threads 32
// bits.
std::array<Buffer, 14> BuffersOf(const ModelConfig& config,
                                 const ActivationLimits& limits) {
  const uint64_t tokens = limits.chunk_tokens;
  const uint64_t longest_vector =
      std::max({config.dim, config.q_dim(), config.ff_dim});
  return {{
      {"residual", tokens * config.dim, &Activations::residual},
      {"normed", tokens * config.dim, &Activations::normed},
      {"q", tokens * config.q_dim(), &Activations::q},
      {"k", tokens * config.kv_dim(), &Activations::k},
      {"v", tokens * config.kv_dim(), &Activations::v},
      {"attended", tokens * config.q_dim(), &Activations::attended},
      {"gate", tokens * config.ff_dim, &Activations::gate},
      {"up", tokens * config.ff_dim, &Activations::up},
      {"rope cos", tokens * (config.head_dim / 2), &Activations::rope_cos},
      {"rope sin", tokens * (config.head_dim / 2), &Activations::rope_sin},
      {"attention scores",
       ScoreFloats(config, limits.chunk_tokens, limits.context_tokens),
       &Activations::scores},
      {"vector", longest_vector, &Activations::vector},
      {"logits",
       uint64_t{Activations::LogitTokens(config, limits)} * config.vocab_size,
       &Activations::logits},
      {"products",
       limits.num_threads * uint64_t{MatMulScratch(longest_vector, tokens)},
       &Activations::matmul_scratch},
  }};
}

absl::StatusOr<ArenaPlan> PlanOf(absl::Span<const Buffer> buffers) {
  ArenaPlan plan;
  for (const Buffer& buffer : buffers) {
    LOWMEM_RETURN_IF_ERROR(
        plan.AddFloats(buffer.name, buffer.num_floats).status());
  }
  return plan;
}

}  // namespace

uint32_t Activations::LogitTokens(const ModelConfig& config,
                                  const ActivationLimits& limits) {
  const uint64_t row_bytes = uint64_t{config.vocab_size} * sizeof(float);
  const uint64_t num_tokens =
      std::max<uint64_t>(1, limits.logit_bytes / row_bytes);
  return static_cast<uint32_t>(
      std::min<uint64_t>(num_tokens, limits.chunk_tokens));
}

absl::StatusOr<uint64_t> Activations::BytesFor(const ModelConfig& config,
                                               const ActivationLimits& limits) {
  LOWMEM_ASSIGN_OR_RETURN(const ArenaPlan plan,
                          PlanOf(BuffersOf(config, limits)));
  return plan.total_bytes();
}

absl::StatusOr<Activations> Activations::Create(const ModelConfig& config,
                                                const ActivationLimits& limits,
                                                MemoryAccount& account) {
  const auto buffers = BuffersOf(config, limits);
  LOWMEM_ASSIGN_OR_RETURN(const ArenaPlan plan, PlanOf(buffers));
  Activations result;
  result.limits = limits;
  result.logit_tokens = LogitTokens(config, limits);
  LOWMEM_ASSIGN_OR_RETURN(result.arena, Arena::Create(plan, account));
  // AddFloats numbers the buffers in order.
  for (size_t i = 0; i < buffers.size(); ++i) {
    result.*buffers[i].span = result.arena.Floats(i);
  }
  return result;
}

}  // namespace lowmem
