// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/mode_choice.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// One pass over the weights serves 128 tokens: beyond that the arithmetic, not
// the reading, takes the time, and activations only grow.
constexpr uint32_t kDefaultChunkTokens = 128;
// A long chunk spares passes over a long prompt; a context that it leaves no
// room for has no long prompts.
constexpr uint32_t kChunksPerContext = 8;
// Copy is worth its memory only while a conversation fits beside it.
constexpr uint32_t kLeastCopyContextTokens = 512;

struct TokenRange {
  uint32_t min = 1;
  uint32_t max = 1;
};

// Contexts that satisfy the request.
absl::StatusOr<TokenRange> AllowedContexts(const ModeRequest& request,
                                           FootprintFunction footprint_of) {
  const uint32_t max = request.model_context_tokens;
  if (request.context_tokens != 0) {
    const uint32_t asked = std::min(request.context_tokens, max);
    return TokenRange{asked, asked};
  }
  LOWMEM_ASSIGN_OR_RETURN(const ModelFootprint footprint, footprint_of(1, 1));
  return TokenRange{std::min(footprint.kv_page_tokens, max), max};
}

// The longest of `contexts` under the budget, with the largest chunk that
// leaves room for it; nullopt when none fits.
absl::StatusOr<std::optional<ModeChoice>> FitMode(
    Mode mode, uint64_t budget_bytes, uint32_t asked_chunk_tokens,
    const TokenRange& contexts, FootprintFunction footprint_of) {
  const bool may_shrink = asked_chunk_tokens == 0;
  uint32_t chunk_tokens = may_shrink ? kDefaultChunkTokens : asked_chunk_tokens;
  while (true) {
    const bool is_last = !may_shrink || chunk_tokens == 1;
    const uint32_t min_tokens =
        is_last ? contexts.min
                : std::clamp(kChunksPerContext * chunk_tokens, contexts.min,
                             contexts.max);
    LOWMEM_ASSIGN_OR_RETURN(
        const std::optional<MemoryForecast> forecast,
        FitLongestContext(mode, budget_bytes, chunk_tokens, min_tokens,
                          contexts.max, footprint_of));
    if (forecast) {
      ModeChoice choice;
      choice.mode = mode;
      choice.forecast = *forecast;
      choice.chunk_tokens = std::min(chunk_tokens, choice.context_tokens());
      return choice;
    }
    if (is_last) return std::nullopt;
    chunk_tokens /= 2;
  }
}

// Why not even the smallest plan fits.
absl::Status Refusal(Mode mode, const ModeRequest& request,
                     FootprintFunction footprint_of) {
  LOWMEM_ASSIGN_OR_RETURN(const MemoryForecast smallest,
                          ForecastSmallest(mode, request, footprint_of));
  const absl::Status refusal = CheckFits(smallest, *request.budget_bytes);
  const uint32_t context_tokens = smallest.footprint.context_tokens;
  if (request.context_tokens == 0 || context_tokens == 1) return refusal;
  LOWMEM_ASSIGN_OR_RETURN(
      const std::optional<MemoryForecast> shorter,
      FitLongestContext(mode, *request.budget_bytes,
                        std::max(request.chunk_tokens, 1u), 1,
                        context_tokens - 1, footprint_of));
  if (!shorter) return refusal;
  return absl::Status(
      refusal.code(),
      absl::StrCat(refusal.message(), "; a context of ",
                   shorter->footprint.context_tokens, " tokens fits"));
}

// Mapped pages that do not fit the budget beside what must be had are given
// back.
bool MustDropBehind(const MemoryForecast& forecast, uint64_t budget_bytes) {
  return forecast.mapped_weight_bytes >
         budget_bytes - forecast.required_bytes();
}

absl::StatusOr<ModeChoice> ChooseWithoutBudget(const ModeRequest& request,
                                               FootprintFunction footprint_of) {
  ModeChoice choice;
  choice.mode = request.mode == Mode::kCopy ? Mode::kCopy : Mode::kMmap;
  choice.reason =
      request.mode == Mode::kAuto ? "no memory budget was given" : "asked for";
  const uint32_t context_tokens =
      request.context_tokens == 0
          ? request.model_context_tokens
          : std::min(request.context_tokens, request.model_context_tokens);
  choice.chunk_tokens = std::min(
      request.chunk_tokens == 0 ? kDefaultChunkTokens : request.chunk_tokens,
      context_tokens);
  LOWMEM_ASSIGN_OR_RETURN(choice.forecast,
                          ForecastContext(choice.mode, choice.chunk_tokens,
                                          context_tokens, footprint_of));
  return choice;
}

// Without drop_behind and budget_limits_context.
absl::StatusOr<ModeChoice> ChooseWithBudget(const ModeRequest& request,
                                            FootprintFunction footprint_of) {
  const uint64_t budget_bytes = *request.budget_bytes;
  LOWMEM_ASSIGN_OR_RETURN(const TokenRange contexts,
                          AllowedContexts(request, footprint_of));
  std::string reason = "asked for";
  if (request.mode == Mode::kAuto) {
    const TokenRange copy_contexts = {
        std::clamp(kLeastCopyContextTokens, contexts.min, contexts.max),
        contexts.max};
    LOWMEM_ASSIGN_OR_RETURN(
        std::optional<ModeChoice> copy,
        FitMode(Mode::kCopy, budget_bytes, request.chunk_tokens, copy_contexts,
                footprint_of));
    if (copy) {
      copy->reason = "the model fits the memory budget";
      return *std::move(copy);
    }
    reason =
        absl::StrCat("the model does not fit the memory budget of ",
                     FormatBytes(budget_bytes), " in heap beside a context of ",
                     copy_contexts.min, " tokens");
  }
  const Mode mode = request.mode == Mode::kCopy ? Mode::kCopy : Mode::kMmap;
  LOWMEM_ASSIGN_OR_RETURN(std::optional<ModeChoice> choice,
                          FitMode(mode, budget_bytes, request.chunk_tokens,
                                  contexts, footprint_of));
  if (!choice) return Refusal(mode, request, footprint_of);
  choice->reason = std::move(reason);
  return *std::move(choice);
}

}  // namespace

ModeRequest ModeRequestOf(const EngineOptions& options,
                          uint32_t model_context_tokens) {
  ModeRequest request;
  request.mode = options.mode;
  request.budget_bytes = options.ram_budget_bytes;
  request.chunk_tokens = options.prefill_chunk_tokens;
  request.context_tokens = options.max_context_tokens;
  request.model_context_tokens = model_context_tokens;
  return request;
}

absl::StatusOr<ModeChoice> ChooseMode(const ModeRequest& request,
                                      FootprintFunction footprint_of) {
  if (request.mode == Mode::kStream) {
    return absl::UnimplementedError(
        "mode stream is not available in this version; use mmap or copy");
  }
  if (!request.budget_bytes) return ChooseWithoutBudget(request, footprint_of);
  LOWMEM_ASSIGN_OR_RETURN(ModeChoice choice,
                          ChooseWithBudget(request, footprint_of));
  choice.drop_behind = MustDropBehind(choice.forecast, *request.budget_bytes);
  choice.budget_limits_context =
      request.context_tokens == 0 &&
      choice.context_tokens() < request.model_context_tokens;
  return choice;
}

absl::StatusOr<MemoryForecast> ForecastSmallest(
    Mode mode, const ModeRequest& request, FootprintFunction footprint_of) {
  LOWMEM_ASSIGN_OR_RETURN(const TokenRange contexts,
                          AllowedContexts(request, footprint_of));
  return ForecastContext(mode, std::max(request.chunk_tokens, 1u), contexts.min,
                         footprint_of);
}

}  // namespace lowmem
