// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_table.h"

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "storage/base/json_writer.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

enum class Unit { kBytes, kSeconds, kPerSecond };

struct Figure {
  absl::string_view heading;
  absl::string_view key;
  Unit unit;
};

constexpr absl::string_view kBytesPerToken = "bytes_read_per_token";
constexpr Figure kFigures[] = {
    {"anonymous memory", "rss_anon_bytes", Unit::kBytes},
    {"file-backed memory", "rss_file_bytes", Unit::kBytes},
    {"peak of both", "vm_hwm_bytes", Unit::kBytes},
    {"page cache of the model", "page_cache_bytes", Unit::kBytes},
    {"read from storage", "storage_read_bytes", Unit::kBytes},
    {"weights read a token", kBytesPerToken, Unit::kBytes},
    {"load", "load_s", Unit::kSeconds},
    {"time to first token", "time_to_first_token_s", Unit::kSeconds},
    {"prefill", "prefill_tokens_per_s", Unit::kPerSecond},
    {"decode", "decode_tokens_per_s", Unit::kPerSecond},
};

// What fits 80 columns.
constexpr size_t kRunsPerTable = 4;

std::optional<double> NumberAt(const JsonValue& meter, absl::string_view key) {
  const JsonValue* value = meter.Find(key);
  return value == nullptr ? std::nullopt : value->AsDouble();
}

// Weights are read once a pass; the meter tells passes a token.
std::optional<double> BytesPerToken(const JsonValue& meter) {
  const std::optional<double> passes = NumberAt(meter, "decode_weight_passes");
  const std::optional<double> model_bytes = NumberAt(meter, "model_bytes");
  if (!passes.has_value() || !model_bytes.has_value()) return std::nullopt;
  return *passes * *model_bytes;
}

std::string Cell(const BenchRun& run, const Figure& figure) {
  const std::optional<double> value = figure.key == kBytesPerToken
                                          ? BytesPerToken(run.meter)
                                          : NumberAt(run.meter, figure.key);
  if (!value.has_value()) return "-";
  switch (figure.unit) {
    case Unit::kBytes:
      return FormatBytes(static_cast<uint64_t>(*value));
    case Unit::kSeconds:
      return absl::StrFormat("%.3f s", *value);
    case Unit::kPerSecond:
      return absl::StrFormat("%.1f tok/s", *value);
  }
  return "-";
}

std::string BudgetCell(const BenchRun& run) {
  return run.ram_budget_bytes.has_value() ? FormatBytes(*run.ram_budget_bytes)
                                          : "none";
}

void AppendLine(absl::string_view heading, absl::Span<const BenchRun> runs,
                absl::FunctionRef<std::string(const BenchRun&)> cell,
                std::string* table) {
  absl::StrAppendFormat(table, "%-24s", heading);
  for (const BenchRun& run : runs)
    absl::StrAppendFormat(table, "%14s", cell(run));
  absl::StrAppend(table, "\n");
}

void AppendTable(absl::Span<const BenchRun> runs, std::string* table) {
  AppendLine(
      "mode", runs,
      [](const BenchRun& run) { return std::string(ModeName(run.mode)); },
      table);
  AppendLine("memory budget", runs, BudgetCell, table);
  for (const Figure& figure : kFigures) {
    AppendLine(
        figure.heading, runs,
        [&figure](const BenchRun& run) { return Cell(run, figure); }, table);
  }
  for (const BenchRun& run : runs) {
    if (run.status.ok()) continue;
    absl::StrAppend(table, ModeName(run.mode), " under ", BudgetCell(run), ": ",
                    run.status.message(), "\n");
  }
}

}  // namespace

std::string BenchTable(const std::vector<BenchRun>& runs) {
  std::string table;
  for (size_t begin = 0; begin < runs.size(); begin += kRunsPerTable) {
    if (begin > 0) absl::StrAppend(&table, "\n");
    AppendTable(absl::MakeConstSpan(runs).subspan(begin, kRunsPerTable),
                &table);
  }
  return table;
}

std::string BenchJson(const std::vector<BenchRun>& runs) {
  JsonWriter json;
  json.BeginObject().Key("runs").BeginArray();
  for (const BenchRun& run : runs) {
    if (run.status.ok()) {
      json.BeginObject();
      for (const JsonValue::Member& member : run.meter.members()) {
        json.Key(member.first).Value(member.second);
      }
      json.Key(kBytesPerToken);
      const std::optional<double> bytes = BytesPerToken(run.meter);
      bytes.has_value() ? json.Uint(static_cast<uint64_t>(*bytes))
                        : json.Null();
      json.EndObject();
      continue;
    }
    json.BeginObject().Key("mode").String(ModeName(run.mode));
    json.Key("ram_budget_bytes");
    if (run.ram_budget_bytes.has_value()) {
      json.Uint(*run.ram_budget_bytes);
    } else {
      json.Null();
    }
    json.Key("error").String(run.status.message()).EndObject();
  }
  json.EndArray().EndObject();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace lowmem::cli
