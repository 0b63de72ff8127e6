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
#include "engine/nn/transformer.h"
#include "lowmem/options.h"

namespace lowmem {

struct ModeRequest {
  Mode mode = Mode::kAuto;
  std::optional<uint64_t> budget_bytes;
  uint32_t chunk_tokens = 0;          // 0: to be chosen
  uint32_t context_tokens = 0;        // 0: to be chosen
  uint32_t model_context_tokens = 1;  // the longest there may be
  // Fills in for the two that are to be chosen.
  std::optional<SequenceNeed> need;
};

// What the caller of Engine::Open asks for, without the need.
ModeRequest ModeRequestOf(const EngineOptions& options,
                          uint32_t model_context_tokens);

// Of a transformer for them. Logits of several tokens are held only where they
// are needed or memory is not counted.
TransformerOptions TransformerOptionsOf(const EngineOptions& options,
                                        uint32_t chunk_tokens,
                                        uint32_t context_tokens);

struct ModeChoice {
  Mode mode = Mode::kMmap;  // never kAuto
  std::string reason;       // one line
  uint32_t chunk_tokens = 0;
  // The context is shorter than the model's, and than what is wanted, for the
  // budget's sake.
  bool budget_limits_context = false;
  // More than context_tokens() where so much could have been asked for: a
  // context that nobody asked for leaves weights most of the budget.
  uint32_t longest_context_tokens = 0;
  MemoryForecast forecast;
  // What the budget leaves for weights in kStream and kMmap; nullopt without
  // one, and for a mapping that fits as a whole.
  std::optional<uint64_t> weight_bytes;

  uint32_t context_tokens() const { return forecast.footprint.context_tokens; }
};

// Whatever is chosen fits the budget with a full context.
// A context to be chosen: without a budget the model's; with one what is
// wanted, or the longest shorter one that fits; without a need the longest for
// which kMmap and kStream give no more than a quarter of the memory that
// weights would else have. A chunk to be chosen: the prompt in as few equal
// parts as fit, of at most 128 tokens (512 where weights are read again in each
// pass); without a need 128 or the largest smaller power of two of which eight
// fit the context. 16 at least. kAuto: without a budget mmap; with one copy
// when the context that is wanted, or 512 tokens, fits with it; else stream;
// else copy with what fits. Errors: kResourceExhausted when nothing fits, as
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
