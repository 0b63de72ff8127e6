// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from the logits. Definitions as in transformers and
// llama.cpp, in this order: penalties, temperature, top-k, top-p, min-p, draw.
//
// What is defined here beyond them, so that a text is the same everywhere: of
// equal logits the smaller id comes first; top-k keeps exactly k; top-p keeps a
// token while those before it sum to less than top_p; NaN and minus infinity
// are never chosen, unless there is nothing else: then id 0. exp is that of
// vector_ops.h.

#ifndef LOWMEM_ENGINE_GENERATE_SAMPLER_H_
#define LOWMEM_ENGINE_GENERATE_SAMPLER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/generate/penalties.h"
#include "engine/generate/sampling_plan.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// Working memory of a sampler, kept between tokens and calls. Untouched, and so
// without cost, while tokens are chosen by argmax without penalties.
// Memory: BytesFor(vocab_size), charged once.
class SamplerBuffers {
 public:
  static uint64_t BytesFor(uint32_t vocab_size);
  // Errors: kResourceExhausted.
  static absl::StatusOr<SamplerBuffers> Create(uint32_t vocab_size,
                                               MemoryAccount& account);

  // [vocab_size] each.
  absl::Span<float> logits();
  absl::Span<float> probabilities();
  absl::Span<uint64_t> ranks();

 private:
  SamplerBuffers(AlignedBuffer block, uint32_t vocab_size)
      : block_(std::move(block)), vocab_size_(vocab_size) {}

  AlignedBuffer block_;
  uint32_t vocab_size_;
};

// Thread safety: one thread at a time. Lifetime: the buffers must outlive it.
class Sampler {
 public:
  Sampler(const SamplingPlan& plan, absl::Span<const int32_t> prompt_ids,
          SamplerBuffers& buffers);

  // The token that follows position `pos` - 1, that is, the one at `pos`, which
  // is also the index of its random number. `logits` [vocab_size] is not
  // changed. The token is remembered for the penalties. REQUIRES: logits.size()
  // is the vocabulary's size, which is not 0.
  int32_t Choose(absl::Span<const float> logits, uint64_t pos);

 private:
  // Tokens still in question, in one order throughout.
  struct Kept {
    // Relative; where nothing was cut after softmax, probabilities.
    absl::Span<float> weights;
    absl::Span<uint64_t> ranks;  // empty when weights are by id

    uint32_t id(size_t i) const;
  };

  int32_t Draw(absl::Span<const float> logits, uint64_t pos);
  Kept KeepTopK(absl::Span<const float> logits);
  Kept KeepTopP(Kept kept);
  Kept KeepTopPOfAll(absl::Span<const float> probabilities);
  Kept KeepMinP(Kept kept);

  const SamplingPlan plan_;
  TokenPenalties penalties_;
  SamplerBuffers& buffers_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_SAMPLER_H_
