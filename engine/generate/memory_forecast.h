// SPDX-License-Identifier: Apache-2.0
// How much memory a model takes in each mode, before any of it is taken. Pure
// functions: `info` prints them, and Open refuses by them before it reads a
// weight.

#ifndef LOWMEM_ENGINE_GENERATE_MEMORY_FORECAST_H_
#define LOWMEM_ENGINE_GENERATE_MEMORY_FORECAST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "lowmem/options.h"

namespace lowmem {

// What a model asks for, wherever its weights live.
struct ModelFootprint {
  uint64_t weight_bytes = 0;  // tensors that are used, each once
  uint64_t arena_bytes = 0;   // activations and attention scores
  uint64_t sampler_bytes = 0;
  uint64_t tokenizer_bytes = 0;  // an estimate
  uint64_t program_bytes = 0;    // code, libraries and stacks; an estimate
  uint64_t kv_bytes_per_token = 0;
  // Keys and values are taken for so many tokens together, in so many bytes.
  uint32_t kv_page_tokens = 1;
  uint64_t kv_page_bytes = 0;
  uint32_t context_tokens = 0;  // longest sequence
};

struct MemoryForecast {
  Mode mode = Mode::kMmap;
  uint64_t heap_weight_bytes = 0;
  uint64_t mapped_weight_bytes = 0;  // the kernel's to take back
  ModelFootprint footprint;

  // Keys and values of `num_tokens`, in whole pages.
  uint64_t KvBytes(uint64_t num_tokens) const;
  // What must be had for a sequence of `num_tokens`, mapped weights not
  // included. UINT64_MAX when the sum does not fit 64 bits.
  uint64_t RequiredBytes(uint64_t num_tokens) const;
  // For the shortest sequence there is, and for a full context.
  uint64_t min_required_bytes() const { return RequiredBytes(1); }
  uint64_t full_required_bytes() const {
    return RequiredBytes(footprint.context_tokens);
  }
};

// REQUIRES: mode is kMmap or kCopy.
MemoryForecast ForecastMemory(Mode mode, const ModelFootprint& footprint);

// Errors: kResourceExhausted when the shortest sequence does not fit, naming
// the mode, what is needed, what is allowed and the largest item.
absl::Status CheckFits(const MemoryForecast& forecast, uint64_t budget_bytes);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MEMORY_FORECAST_H_
