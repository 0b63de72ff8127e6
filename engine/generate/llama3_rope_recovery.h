// SPDX-License-Identifier: Apache-2.0
// GGUF stores Llama 3's rope scaling as what came out of it: one divisor for
// each frequency (rope_freqs.weight). A Hugging Face folder needs what went in.
// This finds parameters and proves that they give the same divisors. Source of
// the formula: transformers, modeling_rope_utils.py,
// _compute_llama3_parameters; llama.cpp's converter writes the divisors.

#ifndef LOWMEM_ENGINE_GENERATE_LLAMA3_ROPE_RECOVERY_H_
#define LOWMEM_ENGINE_GENERATE_LLAMA3_ROPE_RECOVERY_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace lowmem {

// Frequencies whose wavelength is above original / low are divided by `factor`,
// those below original / high are kept, those between are blended.
struct Llama3Scaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  uint32_t original_max_position_embeddings = 8192;
};

// Whether the scaling gives each of the divisors, bit for bit, in the
// arithmetic of a converter (float32 in torch's or numpy's order, or double
// rounded once). The power that makes a frequency is good to one unit in the
// last place only, and each library has its own, so an inverse frequency next
// to ours counts as well.
bool ReproducesDivisors(const Llama3Scaling& scaling,
                        absl::Span<const float> divisors, double theta);

// Published parameters first, then those that the divisors themselves
// determine. `divisors` has one entry for each pair of a head. nullopt when no
// parameters are found that reproduce them.
std::optional<Llama3Scaling> RecoverLlama3Scaling(
    absl::Span<const float> divisors, double theta);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_LLAMA3_ROPE_RECOVERY_H_
