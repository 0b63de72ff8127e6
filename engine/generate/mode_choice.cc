// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/mode_choice.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// One pass over the weights serves 128 tokens: beyond that the arithmetic, not
// the reading, takes the time, and activations only grow.
constexpr uint32_t kDefaultChunkTokens = 128;

// The largest chunk with which `mode` fits, or the refusal for the smallest.
absl::StatusOr<ModeChoice> FitMode(Mode mode,
                                   std::optional<uint64_t> budget_bytes,
                                   uint32_t chunk_tokens,
                                   FootprintFunction footprint_of_chunk) {
  const bool may_shrink = chunk_tokens == 0;
  ModeChoice choice;
  choice.mode = mode;
  choice.chunk_tokens = may_shrink ? kDefaultChunkTokens : chunk_tokens;
  while (true) {
    LOWMEM_ASSIGN_OR_RETURN(const ModelFootprint footprint,
                            footprint_of_chunk(choice.chunk_tokens));
    choice.forecast = ForecastMemory(mode, footprint);
    if (!budget_bytes) return choice;
    absl::Status fits = CheckFits(choice.forecast, *budget_bytes);
    if (fits.ok()) return choice;
    if (!may_shrink || choice.chunk_tokens == 1) return fits;
    choice.chunk_tokens /= 2;
  }
}

// Mapped pages that do not fit the budget beside what must be had are given
// back.
bool MustDropBehind(const ModeChoice& choice,
                    std::optional<uint64_t> budget_bytes) {
  if (choice.mode != Mode::kMmap || !budget_bytes) return false;
  const uint64_t required = choice.forecast.full_required_bytes();
  return required > *budget_bytes ||
         choice.forecast.mapped_weight_bytes > *budget_bytes - required;
}

}  // namespace

absl::StatusOr<ModeChoice> ChooseMode(Mode requested,
                                      std::optional<uint64_t> budget_bytes,
                                      uint32_t chunk_tokens,
                                      FootprintFunction footprint_of_chunk) {
  if (requested == Mode::kStream) {
    return absl::UnimplementedError(
        "mode stream is not available in this version; use mmap or copy");
  }
  std::string reason = "asked for";
  if (requested == Mode::kAuto && budget_bytes) {
    absl::StatusOr<ModeChoice> copy =
        FitMode(Mode::kCopy, budget_bytes, chunk_tokens, footprint_of_chunk);
    if (copy.ok()) {
      copy->reason = "the model fits the memory budget";
      return copy;
    }
    if (!absl::IsResourceExhausted(copy.status())) return copy.status();
    reason = absl::StrCat("the model does not fit the memory budget of ",
                          FormatBytes(*budget_bytes), " in heap");
  } else if (requested == Mode::kAuto) {
    reason = "no memory budget was given";
  }
  const Mode mode = requested == Mode::kCopy ? Mode::kCopy : Mode::kMmap;
  LOWMEM_ASSIGN_OR_RETURN(
      ModeChoice choice,
      FitMode(mode, budget_bytes, chunk_tokens, footprint_of_chunk));
  choice.drop_behind = MustDropBehind(choice, budget_bytes);
  choice.reason = std::move(reason);
  return choice;
}

}  // namespace lowmem
