// SPDX-License-Identifier: Apache-2.0
// lowmem-run perplexity: how well a model predicts a text.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/cli/command.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/cli/text_input.h"
#include "engine/generate/engine_state.h"
#include "engine/generate/perplexity.h"
#include "storage/base/json_writer.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

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
  LOWMEM_ASSIGN_OR_RETURN(const std::string text,
                          ReadText(perplexity.file, limits::kPromptBytes));
  std::unique_ptr<EngineState> engine;
  {
    Progress progress(kCopyingWeights, console.quiet());
    LOWMEM_ASSIGN_OR_RETURN(
        engine,
        EngineState::Open(EngineOptionsOf(
            flags.global, {perplexity.max_context_tokens, 0}, progress)));
  }
  LOWMEM_ASSIGN_OR_RETURN(
      const std::vector<int32_t> ids,
      engine->tokenizer().Encode(
          text, {/*add_special=*/true, /*parse_special=*/true}));
  PerplexityOptions options;
  options.window_tokens = perplexity.max_context_tokens;
  options.stride_tokens = perplexity.stride_tokens;
  absl::StatusOr<PerplexityResult> result;
  {
    Progress progress("predicting tokens", console.quiet());
    result = MeasurePerplexity(*engine, ids, options, &InterruptedFlag(),
                               [&progress](uint64_t done, uint64_t total) {
                                 progress.Update(done, total);
                               });
  }
  LOWMEM_RETURN_IF_ERROR(result.status());
  Meter meter;
  engine->FillMemory(meter);
  meter.prompt_tokens = ids.size();
  LOWMEM_RETURN_IF_ERROR(console.Write(
      flags.global.json ? ResultJson(*result, meter) : ResultText(*result)));
  if (flags.global.stats) {
    console.Note(StatsText(meter, engine->mode_choice().reason));
  }
  return absl::OkStatus();
}

}  // namespace lowmem::cli
