// SPDX-License-Identifier: Apache-2.0
// lowmem-run generate. Uses nothing of the engine but its public API, as a
// program of somebody else would.
#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/cli/command.h"
#include "engine/cli/context_note.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/prompt.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "lowmem/engine.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"

namespace lowmem::cli {
namespace {

void AppendIds(absl::string_view key, const std::vector<int32_t>& ids,
               JsonWriter& json) {
  json.Key(key).BeginArray();
  for (const int32_t id : ids) json.Int(id);
  json.EndArray();
}

uint32_t SumOrMax(uint64_t a, uint64_t b) {
  return static_cast<uint32_t>(
      std::min<uint64_t>(a + b, std::numeric_limits<uint32_t>::max()));
}

// A length that was asked for must fit; the default one yields to the budget.
SequenceNeed NeedOf(const GenerateFlags& generate, uint64_t num_prompt_tokens) {
  const int64_t num_new_tokens = generate.options.max_new_tokens;
  SequenceNeed need;
  need.prompt_tokens = SumOrMax(num_prompt_tokens, 0);
  need.least_context_tokens = SumOrMax(num_prompt_tokens, 1);
  if (num_new_tokens < 0) return need;
  need.wanted_context_tokens =
      SumOrMax(num_prompt_tokens, static_cast<uint64_t>(num_new_tokens));
  if (generate.is_length_asked) {
    need.least_context_tokens = need.wanted_context_tokens;
  }
  return need;
}

std::string ResultJson(const std::vector<int32_t>& prompt_ids,
                       const GenerateResult& result) {
  JsonWriter json;
  json.BeginObject();
  AppendIds("prompt_ids", prompt_ids, json);
  AppendIds("ids", result.ids, json);
  json.Key("text").String(result.text);
  json.Key("stop_reason").String(StopReasonName(result.stop_reason));
  json.Key("stats");
  AppendMeter(result.meter, json);
  json.EndObject();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace

absl::Status RunGenerate(const Flags& flags, Console& console) {
  const GenerateFlags& generate = flags.generate;
  LOWMEM_ASSIGN_OR_RETURN(
      PromptFlags prompt,
      ReadPrompt(generate.prompt, flags.global.ram_budget_bytes));
  const EngineLimits limits = {
      .max_context_tokens = generate.max_context_tokens,
      .prefill_chunk_tokens = generate.prefill_chunk_tokens,
      .text_bytes = prompt.text.has_value() ? prompt.text->size() : 0,
      .sequence_need =
          [&](TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
        LOWMEM_RETURN_IF_ERROR(TokenizePrompt(tokenize, prompt));
        return NeedOf(generate, prompt.ids->size());
      }};
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                          OpenEngine(flags.global, limits, console));
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          engine->NewSession());
  // A signal before the check ends it here; one after it is the session's.
  const CancelOnSignal cancel_on_signal(*session);
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  LOWMEM_RETURN_IF_ERROR(AppendPrompt(prompt, *session));
  const std::vector<int32_t> prompt_ids = session->ids();

  absl::Status written;
  bool printed = false;
  const absl::StatusOr<GenerateResult> result =
      session->Generate(generate.options, [&](absl::string_view text) {
        if (!flags.global.json) {
          written = console.Write(text);
          printed = true;
        }
        return written.ok() && !Interrupted();
      });
  LOWMEM_RETURN_IF_ERROR(written);
  // What failed half-way ends its line; what failed at once prints nothing.
  if (!flags.global.json && (printed || result.ok())) {
    LOWMEM_RETURN_IF_ERROR(console.Write("\n"));
  }
  LOWMEM_RETURN_IF_ERROR(result.status());
  if (flags.global.json) {
    LOWMEM_RETURN_IF_ERROR(console.Write(ResultJson(prompt_ids, *result)));
  }
  if (result->stop_reason == StopReason::kContext &&
      engine->budget_limits_context()) {
    console.Note(absl::StrCat("stopped at ",
                              DescribeContext(engine->max_context_tokens(),
                                              engine->longest_context_tokens()),
                              "\n"));
  }
  if (flags.global.stats) {
    console.Note(StatsText(result->meter, engine->mode_reason()));
  }
  return CheckInterrupted();
}

}  // namespace lowmem::cli
