// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/context_fit.h"

#include <algorithm>

#include "storage/base/status_macros.h"

namespace lowmem {

absl::StatusOr<MemoryForecast> ForecastContext(Mode mode, uint32_t chunk_tokens,
                                               uint32_t context_tokens,
                                               FootprintFunction footprint_of) {
  LOWMEM_ASSIGN_OR_RETURN(
      const ModelFootprint footprint,
      footprint_of(std::min(chunk_tokens, context_tokens), context_tokens));
  return ForecastMemory(mode, footprint);
}

absl::StatusOr<std::optional<MemoryForecast>> FitLongestContext(
    Mode mode, uint64_t budget_bytes, uint32_t chunk_tokens,
    uint32_t min_tokens, uint32_t max_tokens, FootprintFunction footprint_of) {
  std::optional<MemoryForecast> longest;
  // Invariant: all below `low` fit, none above `high` does.
  uint64_t low = min_tokens;
  uint64_t high = max_tokens;
  while (low <= high) {
    // The ends first: a context that is given, and a budget that is ample.
    const uint64_t tokens =
        low == min_tokens && high == max_tokens ? high : low + (high - low) / 2;
    LOWMEM_ASSIGN_OR_RETURN(
        const MemoryForecast forecast,
        ForecastContext(mode, chunk_tokens, static_cast<uint32_t>(tokens),
                        footprint_of));
    if (forecast.required_bytes() <= budget_bytes) {
      longest = forecast;
      low = tokens + 1;
    } else {
      high = tokens - 1;
    }
  }
  return longest;
}

}  // namespace lowmem
