// SPDX-License-Identifier: Apache-2.0
// How long a sequence may become under a budget. Pure functions of sizes.

#ifndef LOWMEM_ENGINE_GENERATE_CONTEXT_FIT_H_
#define LOWMEM_ENGINE_GENERATE_CONTEXT_FIT_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/generate/memory_forecast.h"
#include "lowmem/options.h"

namespace lowmem {

// The footprint when `chunk_tokens` go through a layer together and a sequence
// may have `context_tokens`. Grows with both.
// REQUIRES: 1 <= chunk_tokens <= context_tokens.
using FootprintFunction = absl::FunctionRef<absl::StatusOr<ModelFootprint>(
    uint32_t chunk_tokens, uint32_t context_tokens)>;

// The forecast for a whole context; a chunk that is longer than it is cut.
absl::StatusOr<MemoryForecast> ForecastContext(Mode mode, uint32_t chunk_tokens,
                                               uint32_t context_tokens,
                                               FootprintFunction footprint_of);

// The forecast for the longest context from `min_tokens` to `max_tokens` that
// fits the budget; nullopt when not even the shortest does.
// REQUIRES: 1 <= min_tokens <= max_tokens.
absl::StatusOr<std::optional<MemoryForecast>> FitLongestContext(
    Mode mode, uint64_t budget_bytes, uint32_t chunk_tokens,
    uint32_t min_tokens, uint32_t max_tokens, FootprintFunction footprint_of);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_CONTEXT_FIT_H_
