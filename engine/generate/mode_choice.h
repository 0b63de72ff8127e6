// SPDX-License-Identifier: Apache-2.0
// Decides where the weights live, how long a sequence may become and how many
// tokens go through a layer together, so that what was promised to the user
// fits. A pure function of sizes.

#ifndef LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_
#define LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/generate/context_fit.h"
#include "engine/generate/memory_forecast.h"
#include "lowmem/options.h"

namespace lowmem {

struct ModeRequest {
  Mode mode = Mode::kAuto;
  std::optional<uint64_t> budget_bytes;
  uint32_t chunk_tokens = 0;          // 0: to be chosen
  uint32_t context_tokens = 0;        // 0: to be chosen
  uint32_t model_context_tokens = 1;  // the longest there may be
};

// What the caller of Engine::Open asks for.
ModeRequest ModeRequestOf(const EngineOptions& options,
                          uint32_t model_context_tokens);

struct ModeChoice {
  Mode mode = Mode::kMmap;  // never kAuto
  std::string reason;       // one line
  uint32_t chunk_tokens = 0;
  // Pages of the mapped file are given back after use.
  bool drop_behind = false;
  // The context is shorter than the model's because the budget holds no more.
  bool budget_limits_context = false;
  MemoryForecast forecast;

  uint32_t context_tokens() const { return forecast.footprint.context_tokens; }
};

// Whatever is chosen fits the budget with a full context.
// A context to be chosen: without a budget the model's, else the longest that
// fits, one page of keys and values at least. A chunk to be chosen: 128, or the
// largest smaller power of two of which eight fit the context. kAuto: copy when
// the context asked for fits with it, or 512 tokens, or the model's; else mmap.
// Errors: kUnimplemented for kStream; kResourceExhausted when nothing fits, as
// CheckFits says of the mode that needs least of those allowed, and which
// context would fit when one was asked for.
absl::StatusOr<ModeChoice> ChooseMode(const ModeRequest& request,
                                      FootprintFunction footprint_of);

// The smallest plan that the request allows in `mode`, whatever its budget.
absl::StatusOr<MemoryForecast> ForecastSmallest(Mode mode,
                                                const ModeRequest& request,
                                                FootprintFunction footprint_of);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODE_CHOICE_H_
