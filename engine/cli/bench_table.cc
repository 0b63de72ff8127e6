// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "storage/base/json_writer.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

enum class Unit { kBytes, kSeconds, kPerSecond };

struct Column {
  absl::string_view heading;
  absl::string_view key;
  Unit unit;
};

constexpr Column kColumns[] = {
    {"anonymous", "rss_anon_bytes", Unit::kBytes},
    {"file-backed", "rss_file_bytes", Unit::kBytes},
    {"peak RSS", "vm_hwm_bytes", Unit::kBytes},
    {"page cache", "page_cache_bytes", Unit::kBytes},
    {"from disk", "storage_read_bytes", Unit::kBytes},
    {"load", "load_s", Unit::kSeconds},
    {"first token", "time_to_first_token_s", Unit::kSeconds},
    {"prefill", "prefill_tokens_per_s", Unit::kPerSecond},
    {"decode", "decode_tokens_per_s", Unit::kPerSecond},
};

std::string Cell(const JsonValue& meter, const Column& column) {
  const JsonValue* figure = meter.Find(column.key);
  const std::optional<double> value =
      figure == nullptr ? std::nullopt : figure->AsDouble();
  if (!value.has_value()) return "-";
  switch (column.unit) {
    case Unit::kBytes: return FormatBytes(static_cast<uint64_t>(*value));
    case Unit::kSeconds: return absl::StrFormat("%.3f s", *value);
    case Unit::kPerSecond: return absl::StrFormat("%.1f tok/s", *value);
  }
  return "-";
}

std::string BudgetCell(const BenchRun& run) {
  return run.ram_budget_bytes.has_value() ? FormatBytes(*run.ram_budget_bytes)
                                          : "none";
}

}  // namespace

std::string BenchTable(const std::vector<BenchRun>& runs) {
  std::vector<std::vector<std::string>> lines = {{"mode", "budget"}};
  for (const Column& column : kColumns) lines[0].emplace_back(column.heading);
  for (const BenchRun& run : runs) {
    std::vector<std::string> line = {std::string(ModeName(run.mode)),
                                     BudgetCell(run)};
    if (run.status.ok()) {
      for (const Column& column : kColumns) line.push_back(Cell(run.meter, column));
    }
    lines.push_back(std::move(line));
  }
  std::vector<size_t> widths(lines[0].size());
  for (const std::vector<std::string>& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string table;
  for (size_t row = 0; row < lines.size(); ++row) {
    for (size_t i = 0; i < lines[row].size(); ++i) {
      // The mode is a name, the rest are figures.
      absl::StrAppend(&table, i == 0 ? "" : "  ",
                      i == 0 ? absl::StrFormat("%-*s", widths[i], lines[row][i])
                             : absl::StrFormat("%*s", widths[i], lines[row][i]));
    }
    if (row > 0 && !runs[row - 1].status.ok()) {
      absl::StrAppend(&table, "  ", runs[row - 1].status.message());
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

std::string BenchJson(const std::vector<BenchRun>& runs) {
  JsonWriter json;
  json.BeginObject().Key("runs").BeginArray();
  for (const BenchRun& run : runs) {
    if (run.status.ok()) {
      json.Value(run.meter);
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
