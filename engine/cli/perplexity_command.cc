// SPDX-License-Identifier: Apache-2.0
// lowmem-run perplexity: how well a model predicts a text.
#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/cli/command.h"
#include "engine/cli/context_note.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/cli/text_input.h"
#include "engine/generate/engine_state.h"
#include "engine/generate/perplexity.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

// A window of the whole text where that fits, and else the longest that does.
SequenceNeed NeedOf(size_t num_tokens) {
  const uint32_t window_tokens = static_cast<uint32_t>(
      std::min<size_t>(num_tokens, std::numeric_limits<uint32_t>::max()));
  return {.prompt_tokens = window_tokens,
          .least_context_tokens = std::min(window_tokens, 2u),
          .wanted_context_tokens = window_tokens,
          .caller_bytes = num_tokens * sizeof(int32_t)};
}

std::string ResultJson(const PerplexityResult& result, const Meter& meter) {
  JsonWriter json;
  json.BeginObject().Key("nll").Double(result.nll);
  json.Key("perplexity").Double(result.perplexity);
  json.Key("tokens").Uint(result.num_tokens).Key("stats");
  AppendMeter(meter, json);
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

std::string ResultText(const PerplexityResult& result) {
  return absl::StrFormat("nll         %.6f\nperplexity  %.6f\ntokens      %d\n",
                         result.nll, result.perplexity, result.num_tokens);
}

}  // namespace

absl::Status RunPerplexity(const Flags& flags, Console& console) {
  const PerplexityFlags& perplexity = flags.perplexity;
  LOWMEM_ASSIGN_OR_RETURN(
      std::string text,
      ReadText(perplexity.file, flags.global.ram_budget_bytes));
  std::optional<std::vector<int32_t>> ids;
  // Once the ids are there, the text takes no memory any more.
  const auto take_ids = [&](TokenizeFunction tokenize) -> absl::Status {
    if (ids.has_value()) return absl::OkStatus();
    LOWMEM_ASSIGN_OR_RETURN(ids, tokenize(text, /*parse_special=*/true));
    std::string().swap(text);  // assigning would keep the memory
    return absl::OkStatus();
  };
  const EngineLimits limits = {
      .max_context_tokens = perplexity.max_context_tokens,
      .text_bytes = text.size(),
      .text_exceeds_context = true,
      .sequence_need =
          [&](TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
        LOWMEM_RETURN_IF_ERROR(take_ids(tokenize));
        return NeedOf(ids->size());
      },
      .scores_every_token = true};
  std::unique_ptr<EngineState> engine;
  {
    Progress progress(kCopyingWeights, console.quiet());
    LOWMEM_ASSIGN_OR_RETURN(engine, EngineState::Open(EngineOptionsOf(
                                        flags.global, limits, progress)));
  }
  LOWMEM_RETURN_IF_ERROR(
      take_ids([&engine](absl::string_view whole, bool parse_special) {
        return engine->tokenizer().Encode(
            whole, {/*add_special=*/true, parse_special, &InterruptedFlag()});
      }));
  if (engine->mode_choice().budget_limits_context &&
      ids->size() > engine->max_context_tokens()) {
    console.Note(absl::StrCat(
        "windows have the length of ",
        DescribeContext(engine->max_context_tokens(),
                        engine->mode_choice().longest_context_tokens),
        "\n"));
  }
  PerplexityOptions options;
  options.window_tokens = perplexity.max_context_tokens;
  options.stride_tokens = perplexity.stride_tokens;
  absl::StatusOr<PerplexityResult> result;
  {
    Progress progress("predicting tokens", console.quiet(),
                      ProgressUnit::kTokens);
    result = MeasurePerplexity(*engine, *ids, options, &InterruptedFlag(),
                               [&progress](uint64_t done, uint64_t total) {
                                 progress.Update(done, total);
                               });
  }
  LOWMEM_RETURN_IF_ERROR(result.status());
  const Meter meter = engine->MeterOfPrompt(ids->size());
  LOWMEM_RETURN_IF_ERROR(console.Write(
      flags.global.json ? ResultJson(*result, meter) : ResultText(*result)));
  if (flags.global.stats) {
    console.Note(StatsText(meter, engine->mode_choice().reason));
  }
  return absl::OkStatus();
}

}  // namespace lowmem::cli
