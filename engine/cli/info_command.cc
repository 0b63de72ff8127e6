// SPDX-License-Identifier: Apache-2.0
// lowmem-run info: what a model is and what it will need, from headers alone.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/cli/command.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/plan_report.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "engine/generate/model_summary.h"
#include "engine/generate/stream_plan.h"
#include "storage/base/json_writer.h"
#include "storage/base/memory_account.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/dtype.h"
#include "storage/read_rate.h"
#include "storage/stream_source.h"

namespace lowmem::cli {
namespace {

void AppendConfig(const ModelSummary& summary, JsonWriter& json) {
  const ModelConfig& config = summary.config;
  json.Key("family").String(summary.family);
  json.Key("num_layers").Uint(config.num_layers).Key("dim").Uint(config.dim);
  json.Key("ff_dim")
      .Uint(config.ff_dim)
      .Key("num_heads")
      .Uint(config.num_heads);
  json.Key("num_kv_heads").Uint(config.num_kv_heads);
  json.Key("head_dim").Uint(config.head_dim);
  json.Key("vocab_size").Uint(config.vocab_size);
  json.Key("max_context_tokens").Uint(config.max_context_tokens);
  json.Key("tied_head").Bool(config.tied_head);
  json.Key("num_parameters").Uint(summary.num_parameters);
  json.Key("model_bytes").Uint(summary.model_bytes);
}

// Tokens of the context that the mode would choose; 0 when none fits the
// budget.
uint32_t ContextTokens(const ModeSummary& mode) {
  return mode.planned ? mode.planned->context_tokens() : 0;
}

// Sizes are those of the plan, or of the smallest where none fits the budget.
void AppendMode(const ModeSummary& mode, bool has_budget, JsonWriter& json) {
  const MemoryForecast& forecast =
      mode.planned ? mode.planned->forecast : mode.smallest;
  const ModelFootprint& footprint = forecast.footprint;
  json.Key(ModeName(forecast.mode)).BeginObject();
  json.Key("heap_weight_bytes").Uint(forecast.heap_weight_bytes);
  json.Key("mapped_weight_bytes").Uint(forecast.mapped_weight_bytes);
  json.Key("arena_bytes").Uint(footprint.arena_bytes);
  json.Key("sampler_bytes").Uint(footprint.sampler_bytes);
  json.Key("tokenizer_bytes").Uint(footprint.tokenizer_bytes);
  json.Key("program_bytes").Uint(footprint.program_bytes);
  json.Key("text_bytes").Uint(footprint.text_bytes);
  json.Key("kv_bytes_per_token").Uint(footprint.kv_bytes_per_token);
  json.Key("context_tokens").Uint(ContextTokens(mode));
  json.Key("longest_context_tokens").Uint(mode.longest_context_tokens);
  json.Key("min_required_bytes").Uint(mode.smallest.required_bytes());
  json.Key("full_required_bytes").Uint(mode.full.required_bytes());
  json.Key("fits");
  if (has_budget) {
    json.Bool(mode.planned.has_value());
  } else {
    json.Null();
  }
  json.EndObject();
}

void AppendTensor(const Checkpoint& checkpoint, const TensorInfo& tensor,
                  JsonWriter& json) {
  json.BeginObject();
  json.Key("name").String(tensor.name);
  json.Key("dtype")
      .String(TraitsOf(tensor.dtype).name)
      .Key("shape")
      .BeginArray();
  for (const uint64_t size : tensor.shape) json.Uint(size);
  json.EndArray();
  json.Key("file").String(checkpoint.files()[tensor.file_idx]->path());
  json.Key("offset").Uint(tensor.file_ofs).Key("bytes").Uint(tensor.size_bytes);
  json.EndObject();
}

absl::Status PrintJson(const ModelSummary& summary,
                       const std::optional<PlanReport>& plan,
                       const Flags& flags, Console& console) {
  JsonWriter json;
  json.BeginObject();
  AppendConfig(summary, json);
  json.Key("forecast").BeginObject();
  for (const ModeSummary& mode : summary.modes) {
    AppendMode(mode, flags.global.ram_budget_bytes.has_value(), json);
  }
  json.EndObject();
  json.Key("min_budget_bytes").Uint(summary.min_budget_bytes);
  if (plan) WritePlan(*plan, json.Key("plan"));
  if (flags.info.tensors) {
    json.Key("tensors").BeginArray();
    for (const TensorInfo& tensor : summary.checkpoint->tensors()) {
      AppendTensor(*summary.checkpoint, tensor, json);
      // A table may be long: hand it on piece by piece.
      LOWMEM_RETURN_IF_ERROR(console.Write(json.TakeText()));
    }
    json.EndArray();
  }
  json.EndObject();
  return console.Write(absl::StrCat(json.text(), "\n"));
}

std::string Line(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("%-14s %s\n", name, value);
}

std::string ConfigText(const ModelSummary& summary) {
  const ModelConfig& config = summary.config;
  return absl::StrCat(
      Line("family", summary.family),
      Line("parameters",
           absl::StrFormat("%.1f M", summary.num_parameters / 1e6)),
      Line("weights", FormatBytes(summary.model_bytes)),
      Line("layers", absl::StrCat(config.num_layers, " of width ", config.dim,
                                  ", feed-forward ", config.ff_dim)),
      Line("heads",
           absl::StrCat(config.num_heads, " of ", config.head_dim, ", ",
                        config.num_kv_heads, " of keys and values")),
      Line(
          "vocabulary",
          absl::StrCat(config.vocab_size,
                       config.tied_head ? ", head tied to the embedding" : "")),
      Line("context", absl::StrCat(config.max_context_tokens, " tokens")));
}

std::string ForecastText(const ModelSummary& summary, bool has_budget) {
  std::string text =
      absl::StrFormat("\n%-6s %12s %12s %12s %12s%s\n", "mode", "at least",
                      "full context", "a token", "mapped file",
                      has_budget ? "  fits   context  --ctx up to" : "");
  for (const ModeSummary& mode : summary.modes) {
    absl::StrAppendFormat(
        &text, "%-6s %12s %12s %12s %12s", ModeName(mode.smallest.mode),
        FormatBytes(mode.smallest.required_bytes()),
        FormatBytes(mode.full.required_bytes()),
        FormatBytes(mode.smallest.footprint.kv_bytes_per_token),
        FormatBytes(mode.smallest.mapped_weight_bytes));
    if (has_budget) {
      absl::StrAppendFormat(&text, "  %4s  %8d  %11d",
                            mode.planned ? "yes" : "no", ContextTokens(mode),
                            mode.longest_context_tokens);
    }
    absl::StrAppend(&text, "\n");
  }
  absl::StrAppend(&text, "\n",
                  Line("least budget", FormatBytes(summary.min_budget_bytes)));
  return text;
}

absl::Status PrintText(const ModelSummary& summary,
                       const std::optional<PlanReport>& plan,
                       const Flags& flags, Console& console) {
  LOWMEM_RETURN_IF_ERROR(console.Write(absl::StrCat(
      ConfigText(summary),
      ForecastText(summary, flags.global.ram_budget_bytes.has_value()))));
  if (plan) LOWMEM_RETURN_IF_ERROR(console.Write(PlanToText(*plan)));
  if (!flags.info.tensors) return absl::OkStatus();
  LOWMEM_RETURN_IF_ERROR(console.Write("\n"));
  for (const TensorInfo& tensor : summary.checkpoint->tensors()) {
    const RandomAccessFile& file =
        *summary.checkpoint->files()[tensor.file_idx];
    LOWMEM_RETURN_IF_ERROR(console.Write(absl::StrFormat(
        "%-48s %-8s %-16s %14d %12d  %s\n", Printable(tensor.name),
        TraitsOf(tensor.dtype).name,
        absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]"),
        tensor.file_ofs, tensor.size_bytes, Printable(file.path()))));
  }
  return absl::OkStatus();
}

// The storage's speed is measured when something streams. A mapping is read by
// the kernel, at a speed that this does not tell.
absl::StatusOr<PlanReport> PlanOf(const ModelSummary& summary, Io io) {
  const Checkpoint& checkpoint = *summary.checkpoint;
  if (!summary.choice.ok()) {
    return absl::Status(summary.choice.status().code(),
                        absl::StrCat(Printable(checkpoint.path()), ": ",
                                     summary.choice.status().message()));
  }
  if (!summary.placement) {
    return absl::UnimplementedError(
        "--plan: the mapped file fits the budget as a whole, and the kernel "
        "decides what of it is in memory; expected a smaller budget, or mode "
        "copy or stream");
  }
  PlanReport report = ReportPlan(summary);
  const std::optional<StreamRingShape>& ring = summary.placement->ring;
  if (ring && report.streamed_bytes_per_token > 0) {
    MemoryAccount account("measuring the storage", MemoryAccount::kUnlimited,
                          nullptr);
    LOWMEM_ASSIGN_OR_RETURN(
        report.read_rate,
        MeasureReadRate(
            checkpoint,
            {.method = IoMethodOf(io),
             .may_try_buffered = MayTryBuffered(summary.placement->rows),
             .ring = *ring},
            account));
  }
  return report;
}

}  // namespace

absl::Status RunInfo(const Flags& flags, Console& console) {
  Progress progress(kCopyingWeights, console.quiet());
  LOWMEM_ASSIGN_OR_RETURN(
      const ModelSummary summary,
      SummarizeModel(EngineOptionsOf(
          flags.global, {.max_context_tokens = flags.info.max_context_tokens},
          progress)));
  std::optional<PlanReport> plan;
  if (flags.info.plan) {
    LOWMEM_ASSIGN_OR_RETURN(plan, PlanOf(summary, flags.global.io));
  }
  // Reading the headers takes long on a slow disk and does not listen itself.
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  LOWMEM_RETURN_IF_ERROR(flags.global.json
                             ? PrintJson(summary, plan, flags, console)
                             : PrintText(summary, plan, flags, console));
  if (flags.global.stats) console.Note(StatsText(ProcessMeter(), ""));
  return absl::OkStatus();
}

}  // namespace lowmem::cli
