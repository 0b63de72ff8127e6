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
  uint64_t weight_bytes = 0;         // tensors that are used, each once
  uint64_t copied_weight_bytes = 0;  // the same in heap, with padding
  // Streaming: norms, biases and the smallest ring; all weights and the usual
  // ring.
  uint64_t least_stream_bytes = 0;
  uint64_t most_stream_bytes = 0;
  // Mapping: norms, biases and the smallest window; all weights, in whole
  // pages.
  uint64_t least_mapped_bytes = 0;
  uint64_t most_mapped_bytes = 0;
  uint64_t arena_bytes = 0;  // activations and attention scores
  uint64_t sampler_bytes = 0;
  uint64_t tokenizer_bytes = 0;  // an estimate
  uint64_t program_bytes = 0;    // code, libraries and stacks; an estimate
  // Ids and text of a full sequence and what making them from text takes, and
  // what the caller holds as long as the engine.
  uint64_t text_bytes = 0;
  uint64_t kv_bytes_per_token = 0;
  // Keys and values are taken for so many tokens together, in so many bytes.
  uint32_t kv_page_tokens = 1;
  uint64_t kv_page_bytes = 0;
  uint32_t context_tokens = 0;  // longest sequence
};

struct MemoryForecast {
  Mode mode = Mode::kMmap;
  uint64_t heap_weight_bytes = 0;    // streaming: at least
  uint64_t mapped_weight_bytes = 0;  // at most
  // Of weights, wherever they are: all of them when they are copied, else what
  // the mode takes at least. More of them stay where there is room.
  uint64_t least_weight_bytes = 0;
  ModelFootprint footprint;

  // Keys and values of a full context, in whole pages.
  uint64_t kv_bytes() const;
  // What must be had for a full context.
  // UINT64_MAX when the sum does not fit 64 bits.
  uint64_t required_bytes() const;
};

// REQUIRES: mode is not kAuto.
MemoryForecast ForecastMemory(Mode mode, const ModelFootprint& footprint);

// Errors: kResourceExhausted when a full context does not fit, naming the mode,
// the context, what is needed, what is allowed and the largest item.
absl::Status CheckFits(const MemoryForecast& forecast, uint64_t budget_bytes);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MEMORY_FORECAST_H_
