// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/plan_report.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "storage/base/printable.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

// The bands of a large matrix become one row.
std::vector<PlanRow> RowsOf(const Checkpoint& checkpoint,
                            const ResidencyPlan& plan) {
  std::vector<PlanRow> rows;
  absl::flat_hash_map<TensorId, size_t> row_of_tensor;
  const auto add = [&](const TensorPlacement& placement, bool is_looked_up) {
    const auto [it, is_new] =
        row_of_tensor.emplace(placement.tensor, rows.size());
    if (is_new) {
      rows.push_back({.name = checkpoint.tensors()[placement.tensor].name,
                      .row_bytes = placement.row_bytes,
                      .is_looked_up = is_looked_up});
    }
    rows[it->second].num_rows += placement.num_rows;
    rows[it->second].resident_rows += placement.resident_rows;
  };
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& placement : step) add(placement, false);
  }
  for (const TensorPlacement& placement : plan.looked_up) add(placement, true);
  return rows;
}

std::string Line(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("%-24s %s\n", name, value);
}

}  // namespace

uint64_t PlanRow::bytes_per_token() const {
  const uint64_t num_rows_read =
      is_looked_up ? std::min<uint64_t>(streamed_rows(), 1) : streamed_rows();
  return num_rows_read * row_bytes;
}

uint64_t PlanReport::peak_bytes() const {
  uint64_t sum = 0;
  for (const PlanAccount& account : accounts) sum += account.num_bytes;
  return sum;
}

std::optional<double> PlanReport::max_tokens_per_s() const {
  if (!read_rate || streamed_bytes_per_token == 0) return std::nullopt;
  return read_rate->bytes_per_s / static_cast<double>(streamed_bytes_per_token);
}

PlanReport ReportPlan(const ModelSummary& summary) {
  const WeightPlacement& placement = *summary.placement;
  const MemoryForecast& forecast = summary.choice->forecast;
  const ModelFootprint& footprint = forecast.footprint;
  PlanReport report;
  report.mode = summary.choice->mode;
  report.rows = RowsOf(*summary.checkpoint, placement.rows);
  report.accounts = {
      {"program", "program_bytes", footprint.program_bytes},
      {"tokenizer", "tokenizer_bytes", footprint.tokenizer_bytes},
      {"activations", "arena_bytes", footprint.arena_bytes},
      {"sampler", "sampler_bytes", footprint.sampler_bytes},
      {"text", "text_bytes", footprint.text_bytes},
      {"keys and values", "kv_bytes", forecast.kv_bytes()},
      {"resident weights", "resident_weight_bytes", placement.resident_bytes},
      {"read buffers", "buffer_bytes", placement.buffer_bytes}};
  report.context_tokens = summary.choice->context_tokens();
  report.chunk_tokens = summary.choice->chunk_tokens;
  report.streamed_bytes_per_token = placement.rows.streamed_bytes_per_pass;
  for (const auto& step : placement.rows.steps) {
    for (const TensorPlacement& tensor : step) {
      report.weight_bytes_per_token += tensor.num_rows * tensor.row_bytes;
    }
  }
  return report;
}

std::string PlanToText(const PlanReport& report) {
  std::string text = "\n";
  for (const PlanAccount& account : report.accounts) {
    absl::StrAppend(&text, Line(account.name, FormatBytes(account.num_bytes)));
  }
  absl::StrAppend(&text, Line("peak", FormatBytes(report.peak_bytes())), "\n");
  absl::StrAppend(
      &text, Line("mode", ModeName(report.mode)),
      Line("context", absl::StrCat(report.context_tokens, " tokens")),
      Line("prompt at once", absl::StrCat(report.chunk_tokens, " tokens")),
      Line("read a token",
           absl::StrCat(FormatBytes(report.streamed_bytes_per_token), " of ",
                        FormatBytes(report.weight_bytes_per_token))));
  if (report.read_rate) {
    const double bytes_per_s = report.read_rate->bytes_per_s;
    absl::StrAppend(
        &text,
        Line("storage",
             absl::StrCat(FormatBytes(static_cast<uint64_t>(bytes_per_s)),
                          " a second, measured now (", report.read_rate->method,
                          ")")));
  }
  if (const std::optional<double> tokens_per_s = report.max_tokens_per_s()) {
    absl::StrAppend(&text, Line("at most", absl::StrFormat("%.2f tokens/s",
                                                           *tokens_per_s)));
  }
  // Hundreds of lines: what matters comes before them.
  absl::StrAppendFormat(&text, "\n%-44s %10s %10s %10s %12s\n", "plan", "rows",
                        "resident", "streamed", "a token");
  for (const PlanRow& row : report.rows) {
    absl::StrAppendFormat(&text, "%-44s %10d %10d %10d %12s\n",
                          Printable(row.name), row.num_rows, row.resident_rows,
                          row.streamed_rows(),
                          FormatBytes(row.bytes_per_token()));
  }
  return text;
}

void WritePlan(const PlanReport& report, JsonWriter& json) {
  json.BeginObject().Key("mode").String(ModeName(report.mode));
  json.Key("accounts").BeginObject();
  for (const PlanAccount& account : report.accounts) {
    json.Key(account.key).Uint(account.num_bytes);
  }
  json.EndObject();
  json.Key("peak_bytes").Uint(report.peak_bytes());
  json.Key("context_tokens").Uint(report.context_tokens);
  json.Key("chunk_tokens").Uint(report.chunk_tokens);
  json.Key("streamed_bytes_per_token").Uint(report.streamed_bytes_per_token);
  json.Key("weight_bytes_per_token").Uint(report.weight_bytes_per_token);
  const auto number = [&json](const char* key, std::optional<double> value) {
    json.Key(key);
    value ? json.Double(*value) : json.Null();
  };
  number("read_bytes_per_s",
         report.read_rate ? std::optional<double>(report.read_rate->bytes_per_s)
                          : std::nullopt);
  number("max_tokens_per_s", report.max_tokens_per_s());
  json.Key("tensors").BeginArray();
  for (const PlanRow& row : report.rows) {
    json.BeginObject().Key("name").String(row.name);
    json.Key("rows").Uint(row.num_rows);
    json.Key("resident_rows").Uint(row.resident_rows);
    json.Key("streamed_rows").Uint(row.streamed_rows());
    json.Key("bytes_per_token").Uint(row.bytes_per_token());
    json.EndObject();
  }
  json.EndArray().EndObject();
}

}  // namespace lowmem::cli
