// SPDX-License-Identifier: Apache-2.0
// lowmem-run trace: hidden states and logits to a file.
#include "absl/strings/str_cat.h"
#include "engine/cli/command.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/prompt.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/generate/engine_state.h"
#include "engine/generate/trace.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {

absl::Status RunTrace(const Flags& flags, Console& console) {
  const TraceFlags& trace = flags.trace;
  LOWMEM_ASSIGN_OR_RETURN(
      PromptFlags prompt,
      ReadPrompt(trace.prompt, flags.global.ram_budget_bytes));
  const EngineLimits limits = {
      .prefill_chunk_tokens = trace.prefill_chunk_tokens,
      .text_bytes = prompt.text.has_value() ? prompt.text->size() : 0,
      .sequence_need =
          [&](TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
        LOWMEM_RETURN_IF_ERROR(TokenizePrompt(tokenize, prompt));
        const uint32_t num_tokens = static_cast<uint32_t>(prompt.ids->size());
        return SequenceNeed{.prompt_tokens = num_tokens,
                            .least_context_tokens = num_tokens,
                            .wanted_context_tokens = num_tokens};
      },
      .scores_every_token = true};
  std::unique_ptr<EngineState> engine;
  {
    Progress progress(kCopyingWeights, console.quiet());
    LOWMEM_ASSIGN_OR_RETURN(engine, EngineState::Open(EngineOptionsOf(
                                        flags.global, limits, progress)));
  }
  LOWMEM_RETURN_IF_ERROR(TokenizePrompt(
      [&engine](absl::string_view text, bool parse_special) {
        return engine->EncodeNext(0, text, parse_special, &InterruptedFlag());
      },
      prompt));
  const std::vector<int32_t>& ids = *prompt.ids;
  LOWMEM_RETURN_IF_ERROR(
      WriteTrace(*engine, ids, trace.out_path, &InterruptedFlag()));
  const Meter meter = engine->MeterOfPrompt(ids.size());
  if (flags.global.json) {
    JsonWriter json;
    json.BeginObject().Key("prompt_ids").BeginArray();
    for (const int32_t id : ids) json.Int(id);
    json.EndArray().Key("out").String(trace.out_path).Key("stats");
    AppendMeter(meter, json);
    json.EndObject();
    LOWMEM_RETURN_IF_ERROR(console.Write(absl::StrCat(json.text(), "\n")));
  }
  if (flags.global.stats) {
    console.Note(StatsText(meter, engine->mode_choice().reason));
  }
  return absl::OkStatus();
}

}  // namespace lowmem::cli
