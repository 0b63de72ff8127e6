// SPDX-License-Identifier: Apache-2.0
// Decides where the weights live and how many tokens go through a layer
// together, so that what was promised to the user fits. A pure function of
// sizes.

#ifndef LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_
#define LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/generate/memory_forecast.h"
#include "lowmem/options.h"

namespace lowmem {

struct ModeChoice {
  Mode mode = Mode::kMmap;  // never kAuto
  std::string reason;       // one line
  uint32_t chunk_tokens = 0;
  // Pages of the mapped file are given back after use.
  bool drop_behind = false;
  MemoryForecast forecast;
};

// The footprint when `chunk_tokens` go through a layer together.
using FootprintFunction =
    absl::FunctionRef<absl::StatusOr<ModelFootprint>(uint32_t chunk_tokens)>;

// `chunk_tokens` 0: 128, or the largest smaller power of two that fits.
// Errors: kUnimplemented for kStream; kResourceExhausted when nothing fits, as
// CheckFits says of the mode that needs least of those allowed.
absl::StatusOr<ModeChoice> ChooseMode(Mode requested,
                                      std::optional<uint64_t> budget_bytes,
                                      uint32_t chunk_tokens,
                                      FootprintFunction footprint_of_chunk);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_
