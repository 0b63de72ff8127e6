// SPDX-License-Identifier: Apache-2.0
// The token loop: computes what is new, chooses a token, hands out its text,
// until a stop rule ends it. Knows nothing of files, modes or other sessions.

#ifndef LOWMEM_ENGINE_GENERATE_GENERATOR_H_
#define LOWMEM_ENGINE_GENERATE_GENERATOR_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/cache/kv_cache.h"
#include "engine/generate/sampler.h"
#include "engine/generate/sampling_plan.h"
#include "engine/nn/transformer.h"
#include "engine/text/tokenizer.h"
#include "lowmem/options.h"
#include "lowmem/session.h"

namespace lowmem {

// What one call works with. Lifetime: all of it outlives the call.
struct GeneratorInput {
  Transformer& transformer;
  const Tokenizer& tokenizer;
  SamplerBuffers& sampler_buffers;
  absl::Span<const int32_t> eos_ids;
  uint32_t max_context_tokens;
  const std::atomic<bool>& cancel;
};

// Continues the sequence `ids`, of which `kv` holds the first kv.size().
// Appends each token that is chosen, but an end token, before it is handed out,
// so that a failure leaves both usable. Of the meter, what concerns tokens,
// passes and time is filled.
//
// A token's text may be held back: until its last character is complete, and
// while it may begin a stop text. It is handed out when generation ends
// otherwise. REQUIRES: `ids` is not empty; options are valid; kv.size() <=
// ids.size(). Errors: those of Transformer::Forward, kCancelled excepted: that
// is an interruption.
absl::StatusOr<GenerateResult> GenerateTokens(
    const GeneratorInput& input, const GenerateOptions& options,
    const SamplingPlan& plan, std::vector<int32_t>& ids, KvCache& kv,
    absl::FunctionRef<bool(absl::string_view text)> on_text);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_GENERATOR_H_
