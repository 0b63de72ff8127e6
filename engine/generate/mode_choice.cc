// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/mode_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// One pass over the weights serves 128 tokens: beyond that the arithmetic, not
// the reading, takes the time, and activations only grow.
constexpr uint32_t kDefaultChunkTokens = 128;
// Reading from storage takes longer than that arithmetic: at 2 GB/s as long as
// that of some 500 tokens on two cores.
constexpr uint32_t kMaxStreamChunkTokens = 512;
// A page of keys and values; fewer would save less than that and cost a pass
// over the weights for each.
constexpr uint32_t kLeastChunkTokens = 16;
// A long chunk spares passes over a long prompt; a context that it leaves no
// room for has no long prompts.
constexpr uint32_t kChunksPerContext = 8;
// Copy is worth its memory only while a conversation fits beside it.
constexpr uint32_t kLeastCopyContextTokens = 512;
// Of the memory that could hold weights, what a context that nobody asked for
// may take.
constexpr uint64_t kContextShare = 4;

struct TokenRange {
  uint32_t min = 1;
  uint32_t max = 1;
};

// A chunk to try, with the contexts it is worth it for.
struct Attempt {
  uint32_t chunk_tokens = 1;
  TokenRange contexts;
};

// Whether the need says how long the context is to be.
bool WantsContext(const ModeRequest& request) {
  return request.need && request.need->wanted_context_tokens != 0;
}

// Contexts that satisfy the request.
absl::StatusOr<TokenRange> AllowedContexts(const ModeRequest& request,
                                           FootprintFunction footprint_of) {
  const uint32_t max = request.model_context_tokens;
  if (request.context_tokens != 0) {
    const uint32_t asked = std::min(request.context_tokens, max);
    return TokenRange{asked, asked};
  }
  if (request.need) {
    const uint32_t least =
        std::clamp(request.need->least_context_tokens, 1u, max);
    if (!WantsContext(request)) return TokenRange{least, max};
    return TokenRange{
        least, std::clamp(request.need->wanted_context_tokens, least, max)};
  }
  LOWMEM_ASSIGN_OR_RETURN(const ModelFootprint footprint, footprint_of(1, 1));
  return TokenRange{std::min(footprint.kv_page_tokens, max), max};
}

uint32_t PromptTokens(const ModeRequest& request) {
  return request.need ? request.need->prompt_tokens : 0;
}

// The smallest chunk that is ever chosen.
uint32_t LeastChunk(const ModeRequest& request) {
  if (request.chunk_tokens != 0) return request.chunk_tokens;
  const uint32_t prompt_tokens = PromptTokens(request);
  return prompt_tokens == 0 ? kLeastChunkTokens
                            : std::min(kLeastChunkTokens, prompt_tokens);
}

// Whether each chunk reads weights from storage again.
bool ReadsAgain(Mode mode, const ModeRequest& request) {
  return mode == Mode::kStream ||
         (mode == Mode::kMmap && request.budget_bytes.has_value());
}

uint32_t MaxChunk(Mode mode, const ModeRequest& request) {
  return ReadsAgain(mode, request) ? kMaxStreamChunkTokens
                                   : kDefaultChunkTokens;
}

// From the best to the smallest.
std::vector<Attempt> Attempts(Mode mode, const ModeRequest& request,
                              const TokenRange& contexts) {
  std::vector<Attempt> attempts;
  const TokenRange preferred = {
      WantsContext(request) ? contexts.max : contexts.min, contexts.max};
  if (request.chunk_tokens != 0) {
    return {{request.chunk_tokens, contexts}};
  }
  const uint32_t least_chunk = LeastChunk(request);
  if (const uint32_t prompt_tokens = PromptTokens(request)) {
    // In so many parts that each fits; a smaller chunk before a shorter
    // context.
    uint32_t num_parts = (prompt_tokens - 1) / MaxChunk(mode, request) + 1;
    for (uint32_t chunk_tokens = 0; chunk_tokens != least_chunk; ++num_parts) {
      const uint32_t part_tokens =
          std::max((prompt_tokens - 1) / num_parts + 1, least_chunk);
      if (part_tokens == chunk_tokens) continue;
      chunk_tokens = part_tokens;
      attempts.push_back({chunk_tokens, preferred});
    }
  } else {
    for (uint32_t chunk_tokens = kDefaultChunkTokens;
         chunk_tokens > least_chunk; chunk_tokens /= 2) {
      attempts.push_back({chunk_tokens,
                          {std::clamp(kChunksPerContext * chunk_tokens,
                                      contexts.min, contexts.max),
                           contexts.max}});
    }
  }
  attempts.push_back({least_chunk, contexts});
  return attempts;
}

// The first attempt that fits, with the longest of its contexts; nullopt when
// none does.
absl::StatusOr<std::optional<ModeChoice>> FitMode(
    Mode mode, uint64_t budget_bytes, const ModeRequest& request,
    const TokenRange& contexts, FootprintFunction footprint_of) {
  for (const Attempt& attempt : Attempts(mode, request, contexts)) {
    LOWMEM_ASSIGN_OR_RETURN(
        const std::optional<MemoryForecast> forecast,
        FitLongestContext(mode, budget_bytes, attempt.chunk_tokens,
                          attempt.contexts.min, attempt.contexts.max,
                          footprint_of));
    if (!forecast) continue;
    ModeChoice choice;
    choice.mode = mode;
    choice.forecast = *forecast;
    choice.chunk_tokens =
        std::min(attempt.chunk_tokens, choice.context_tokens());
    return choice;
  }
  return std::nullopt;
}

// What a context that nobody asked for is chosen under, so that weights keep
// most of the memory where not all of them fit.
absl::StatusOr<uint64_t> ContextBudget(Mode mode, const ModeRequest& request,
                                       FootprintFunction footprint_of) {
  const uint64_t budget_bytes = *request.budget_bytes;
  if (mode == Mode::kCopy || request.context_tokens != 0 ||
      WantsContext(request)) {
    return budget_bytes;
  }
  LOWMEM_ASSIGN_OR_RETURN(const MemoryForecast smallest,
                          ForecastSmallest(mode, request, footprint_of));
  const uint64_t least_bytes = smallest.required_bytes();
  if (least_bytes >= budget_bytes) return budget_bytes;
  const ModelFootprint& model = smallest.footprint;
  const uint64_t most_bytes =
      mode == Mode::kStream ? model.most_stream_bytes : model.most_mapped_bytes;
  const uint64_t weight_bytes =
      most_bytes - std::min(most_bytes, smallest.least_weight_bytes);
  const uint64_t spare_bytes = budget_bytes - least_bytes;
  const uint64_t beside_all_weights =
      spare_bytes - std::min(spare_bytes, weight_bytes);
  return least_bytes +
         std::max(beside_all_weights, spare_bytes / kContextShare);
}

// Why not even the smallest plan fits.
absl::Status Refusal(Mode mode, const ModeRequest& request,
                     FootprintFunction footprint_of) {
  LOWMEM_ASSIGN_OR_RETURN(const MemoryForecast smallest,
                          ForecastSmallest(mode, request, footprint_of));
  const absl::Status refusal = CheckFits(smallest, *request.budget_bytes);
  const uint32_t context_tokens = smallest.footprint.context_tokens;
  const bool was_asked = request.context_tokens != 0 || request.need;
  if (!was_asked || context_tokens == 1) return refusal;
  LOWMEM_ASSIGN_OR_RETURN(
      const std::optional<MemoryForecast> shorter,
      FitLongestContext(mode, *request.budget_bytes, LeastChunk(request), 1,
                        context_tokens - 1, footprint_of));
  if (!shorter) return refusal;
  return absl::Status(
      refusal.code(),
      absl::StrCat(refusal.message(), "; a context of ",
                   shorter->footprint.context_tokens, " tokens fits"));
}

// Of `choice` under the budget.
std::optional<uint64_t> BytesForWeights(const ModeChoice& choice,
                                        uint64_t budget_bytes) {
  if (choice.mode == Mode::kCopy) return std::nullopt;
  const MemoryForecast& forecast = choice.forecast;
  const uint64_t num_bytes =
      budget_bytes - (forecast.required_bytes() - forecast.least_weight_bytes);
  const bool is_mapped_whole =
      choice.mode == Mode::kMmap &&
      num_bytes >= forecast.footprint.most_mapped_bytes;
  return is_mapped_whole ? std::nullopt : std::optional<uint64_t>(num_bytes);
}

absl::StatusOr<ModeChoice> ChooseWithoutBudget(const ModeRequest& request,
                                               FootprintFunction footprint_of) {
  ModeChoice choice;
  choice.mode = request.mode == Mode::kAuto ? Mode::kMmap : request.mode;
  choice.reason =
      request.mode == Mode::kAuto ? "no memory budget was given" : "asked for";
  const uint32_t context_tokens =
      request.context_tokens == 0
          ? request.model_context_tokens
          : std::min(request.context_tokens, request.model_context_tokens);
  const TokenRange contexts = {context_tokens, context_tokens};
  choice.chunk_tokens = std::min(
      Attempts(choice.mode, request, contexts)[0].chunk_tokens, context_tokens);
  choice.longest_context_tokens = context_tokens;
  LOWMEM_ASSIGN_OR_RETURN(choice.forecast,
                          ForecastContext(choice.mode, choice.chunk_tokens,
                                          context_tokens, footprint_of));
  return choice;
}

// The modes to try, each with the contexts it is worth it for.
struct ModeAttempt {
  Mode mode;
  TokenRange contexts;
};

std::vector<ModeAttempt> ModeAttempts(const ModeRequest& request,
                                      const TokenRange& contexts) {
  if (request.mode != Mode::kAuto) return {{request.mode, contexts}};
  const uint32_t least_copy_tokens =
      WantsContext(request)
          ? contexts.max
          : std::clamp(kLeastCopyContextTokens, contexts.min, contexts.max);
  return {{Mode::kCopy, {least_copy_tokens, contexts.max}},
          {Mode::kStream, contexts},
          {Mode::kCopy, contexts}};
}

std::string Reason(const ModeRequest& request, const ModeAttempt& preferred,
                   Mode mode) {
  if (request.mode != Mode::kAuto) return "asked for";
  if (mode == Mode::kCopy) return "the model fits the memory budget";
  return absl::StrCat("the model does not fit the memory budget of ",
                      FormatBytes(*request.budget_bytes),
                      " in heap beside a context of ", preferred.contexts.min,
                      " tokens");
}

// What a request for a context gets at most, in any mode that it allows. With
// the chunk of a need that is not known: it is refused before one is asked for.
absl::StatusOr<uint32_t> LongestContext(const ModeRequest& request,
                                        const TokenRange& contexts,
                                        uint32_t context_tokens,
                                        FootprintFunction footprint_of) {
  const uint32_t chunk_tokens =
      request.chunk_tokens != 0 ? request.chunk_tokens : kLeastChunkTokens;
  uint32_t longest = context_tokens;
  for (const ModeAttempt& attempt : ModeAttempts(request, contexts)) {
    LOWMEM_ASSIGN_OR_RETURN(
        const std::optional<MemoryForecast> forecast,
        FitLongestContext(attempt.mode, *request.budget_bytes, chunk_tokens,
                          context_tokens, request.model_context_tokens,
                          footprint_of));
    if (forecast) {
      longest = std::max(longest, forecast->footprint.context_tokens);
    }
  }
  return longest;
}

// Without weight_bytes, budget_limits_context and longest_context_tokens.
absl::StatusOr<ModeChoice> ChooseWithBudget(const ModeRequest& request,
                                            const TokenRange& contexts,
                                            FootprintFunction footprint_of) {
  const std::vector<ModeAttempt> attempts = ModeAttempts(request, contexts);
  std::optional<uint64_t> least_bytes;
  Mode least_mode = request.mode;
  for (const ModeAttempt& attempt : attempts) {
    LOWMEM_ASSIGN_OR_RETURN(const uint64_t context_budget,
                            ContextBudget(attempt.mode, request, footprint_of));
    LOWMEM_ASSIGN_OR_RETURN(std::optional<ModeChoice> choice,
                            FitMode(attempt.mode, context_budget, request,
                                    attempt.contexts, footprint_of));
    if (choice) {
      choice->reason = Reason(request, attempts[0], attempt.mode);
      return *std::move(choice);
    }
    LOWMEM_ASSIGN_OR_RETURN(
        const MemoryForecast smallest,
        ForecastSmallest(attempt.mode, request, footprint_of));
    if (!least_bytes || smallest.required_bytes() < *least_bytes) {
      least_bytes = smallest.required_bytes();
      least_mode = attempt.mode;
    }
  }
  return Refusal(least_mode, request, footprint_of);
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

TransformerOptions TransformerOptionsOf(const EngineOptions& options,
                                        uint32_t chunk_tokens,
                                        uint32_t context_tokens) {
  TransformerOptions result;
  result.max_chunk_tokens = chunk_tokens;
  result.max_context_tokens = context_tokens;
  const bool counts_memory =
      options.ram_budget_bytes.has_value() || options.mode == Mode::kStream;
  if (counts_memory && !options.scores_every_token) result.max_logit_bytes = 0;
  return result;
}

absl::StatusOr<ModeChoice> ChooseMode(const ModeRequest& request,
                                      FootprintFunction footprint_of) {
  if (!request.budget_bytes) return ChooseWithoutBudget(request, footprint_of);
  LOWMEM_ASSIGN_OR_RETURN(const TokenRange contexts,
                          AllowedContexts(request, footprint_of));
  LOWMEM_ASSIGN_OR_RETURN(ModeChoice choice,
                          ChooseWithBudget(request, contexts, footprint_of));
  choice.weight_bytes = BytesForWeights(choice, *request.budget_bytes);
  choice.budget_limits_context =
      request.context_tokens == 0 && choice.context_tokens() < contexts.max;
  choice.longest_context_tokens = choice.context_tokens();
  if (choice.budget_limits_context) {
    LOWMEM_ASSIGN_OR_RETURN(
        choice.longest_context_tokens,
        LongestContext(request, contexts, choice.context_tokens(),
                       footprint_of));
  }
  return choice;
}

absl::StatusOr<MemoryForecast> ForecastSmallest(
    Mode mode, const ModeRequest& request, FootprintFunction footprint_of) {
  LOWMEM_ASSIGN_OR_RETURN(const TokenRange contexts,
                          AllowedContexts(request, footprint_of));
  return ForecastContext(mode, LeastChunk(request), contexts.min, footprint_of);
}

}  // namespace lowmem
