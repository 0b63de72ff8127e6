// SPDX-License-Identifier: Apache-2.0
// How well a model predicts a text: the mean negative log likelihood of its
// tokens, over sliding windows as in Hugging Face's guide "Perplexity of
// fixed-length models".

#ifndef LOWMEM_ENGINE_GENERATE_PERPLEXITY_H_
#define LOWMEM_ENGINE_GENERATE_PERPLEXITY_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/generate/engine_state.h"

namespace lowmem {

struct PerplexityOptions {
  uint32_t window_tokens = 0;  // 0: the engine's context
  uint32_t stride_tokens = 0;  // 0: half a window
};

struct PerplexityResult {
  double nll = 0;  // mean over the predicted tokens, in nats
  double perplexity = 0;
  uint64_t num_tokens = 0;  // predicted
};

// A window begins every stride_tokens; it predicts what no window before it
// did, with all before that in the window as context. The first token of the
// text is context only; with a stride of a whole window, so is the first of
// each. `on_progress` is told how many tokens of how many are done. Errors:
// kInvalidArgument for fewer than 2 ids, an id outside the vocabulary, a window
// of less than 2 tokens or beyond the context, or a stride of more than a
// window; kCancelled.
absl::StatusOr<PerplexityResult> MeasurePerplexity(
    EngineState& engine, absl::Span<const int32_t> ids,
    const PerplexityOptions& options, const std::atomic<bool>* cancel,
    absl::FunctionRef<void(uint64_t done_tokens, uint64_t total_tokens)>
        on_progress);

// -ln of the probability that softmax(logits) gives to `id`, summed in double.
// REQUIRES: 0 <= id < logits.size(), all logits finite.
double NegativeLogLikelihood(absl::Span<const float> logits, int32_t id);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_PERPLEXITY_H_
