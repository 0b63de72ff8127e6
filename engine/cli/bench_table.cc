// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_table.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "storage/base/json_writer.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

enum class Unit { kBytes, kSeconds, kPerSecond, kRatio };

std::optional<double> NumberAt(const JsonValue& meter, absl::string_view key) {
  const JsonValue* value = meter.Find(key);
  return value == nullptr ? std::nullopt : value->AsDouble();
}

// A line of the table: a field of the meter, or what the run itself knows.
struct Figure {
  absl::string_view heading;
  absl::string_view key;
  std::optional<double> (*of_run)(const BenchRun& run);
  Unit unit;

  std::optional<double> Of(const BenchRun& run) const {
    return of_run == nullptr ? NumberAt(run.meter, key) : of_run(run);
  }
};

constexpr Figure kFigures[] = {
    {"anonymous memory", "rss_anon_bytes", nullptr, Unit::kBytes},
    {"file-backed memory", "rss_file_bytes", nullptr, Unit::kBytes},
    {"peak of both", "vm_hwm_bytes", nullptr, Unit::kBytes},
    {"peak of the group", "",
     [](const BenchRun& run) -> std::optional<double> {
       return run.group.peak_bytes;
     },
     Unit::kBytes},
    {"page cache of the model", "page_cache_bytes", nullptr, Unit::kBytes},
    {"read from storage", "storage_read_bytes", nullptr, Unit::kBytes},
    {"  a token", "",
     [](const BenchRun& run) -> std::optional<double> {
       return run.storage_bytes_per_token;
     },
     Unit::kBytes},
    {"weights used a token", "",
     [](const BenchRun& run) -> std::optional<double> {
       return run.weight_bytes_per_token;
     },
     Unit::kBytes},
    {"passes in prefill", "prefill_weight_passes", nullptr, Unit::kRatio},
    {"load", "load_s", nullptr, Unit::kSeconds},
    {"time to first token", "time_to_first_token_s", nullptr, Unit::kSeconds},
    {"prefill", "prefill_tokens_per_s", nullptr, Unit::kPerSecond},
    {"decode", "decode_tokens_per_s", nullptr, Unit::kPerSecond},
};

// What fits 80 columns.
constexpr size_t kColumnsPerTable = 4;

// The repeats of one mode under one budget, which follow each other.
using Column = absl::Span<const BenchRun>;

std::vector<Column> ColumnsOf(absl::Span<const BenchRun> runs) {
  std::vector<Column> columns;
  for (size_t begin = 0, end = 0; begin < runs.size(); begin = end) {
    const BenchRun& first = runs[begin];
    while (end < runs.size() && runs[end].mode == first.mode &&
           runs[end].ram_budget_bytes == first.ram_budget_bytes) {
      ++end;
    }
    columns.push_back(runs.subspan(begin, end - begin));
  }
  return columns;
}

// What the runs that have the figure gave, in ascending order.
std::vector<double> ValuesOf(const Column& column, const Figure& figure) {
  std::vector<double> values;
  for (const BenchRun& run : column) {
    const std::optional<double> value = figure.Of(run);
    if (value.has_value()) values.push_back(*value);
  }
  std::sort(values.begin(), values.end());
  return values;
}

std::optional<double> Median(const std::vector<double>& sorted) {
  if (sorted.empty()) return std::nullopt;
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle]
                                : (sorted[middle - 1] + sorted[middle]) / 2;
}

std::string Cell(const Figure& figure, std::optional<double> value) {
  if (!value.has_value()) return "-";
  switch (figure.unit) {
    case Unit::kBytes:
      return FormatBytes(static_cast<uint64_t>(*value));
    case Unit::kSeconds:
      return absl::StrFormat("%.3f s", *value);
    case Unit::kPerSecond:
      return absl::StrFormat("%.*f tok/s", *value < 10 ? 2 : 1, *value);
    case Unit::kRatio:
      return absl::StrFormat("%.2f", *value);
  }
  return "-";
}

std::string BytesCell(const std::optional<uint64_t>& num_bytes) {
  return num_bytes.has_value() ? FormatBytes(*num_bytes) : "none";
}

std::string BudgetCell(const Column& column) {
  return BytesCell(column[0].ram_budget_bytes);
}

std::string LimitCell(const Column& column) {
  return BytesCell(column[0].limit_bytes);
}

// What was asked for and, of auto, what it came to.
std::string ModeCell(const Column& column) {
  const std::string asked(ModeName(column[0].mode));
  const JsonValue* const taken = column[0].meter.Find("mode");
  if (column[0].mode != Mode::kAuto || taken == nullptr) return asked;
  return absl::StrCat(asked, ": ", taken->string());
}

std::string NumRunsCell(const Column& column) {
  const auto num_done =
      std::count_if(column.begin(), column.end(),
                    [](const BenchRun& run) { return run.status.ok(); });
  return absl::StrCat(num_done);
}

void AppendLine(absl::string_view heading, absl::Span<const Column> columns,
                absl::FunctionRef<std::string(const Column&)> cell,
                std::string* table) {
  absl::StrAppendFormat(table, "%-24s", heading);
  for (const Column& column : columns) {
    absl::StrAppendFormat(table, "%14s", cell(column));
  }
  absl::StrAppend(table, "\n");
}

void AppendSpread(absl::Span<const Column> columns, const Figure& figure,
                  std::string* table) {
  const auto cell_of = [&](const Column& column, bool largest) {
    const std::vector<double> values = ValuesOf(column, figure);
    if (values.empty()) return std::string("-");
    return Cell(figure, largest ? values.back() : values.front());
  };
  for (const bool largest : {false, true}) {
    AppendLine(
        largest ? "  fastest" : "  slowest", columns,
        [&](const Column& column) { return cell_of(column, largest); }, table);
  }
}

void AppendTable(absl::Span<const Column> columns, std::string* table) {
  const bool is_repeated =
      std::any_of(columns.begin(), columns.end(),
                  [](const Column& column) { return column.size() > 1; });
  AppendLine("mode", columns, ModeCell, table);
  AppendLine("memory budget", columns, BudgetCell, table);
  AppendLine("memory limit", columns, LimitCell, table);
  if (is_repeated) AppendLine("medians of runs", columns, NumRunsCell, table);
  for (const Figure& figure : kFigures) {
    AppendLine(
        figure.heading, columns,
        [&figure](const Column& column) {
          return Cell(figure, Median(ValuesOf(column, figure)));
        },
        table);
    if (is_repeated && figure.unit == Unit::kPerSecond) {
      AppendSpread(columns, figure, table);
    }
  }
  // The same for all of them.
  for (const Column& column : columns) {
    if (column[0].no_limit_reason.empty()) continue;
    absl::StrAppend(table, "limit: none (", column[0].no_limit_reason, ")\n");
    break;
  }
  for (const Column& column : columns) {
    absl::string_view last;
    for (const BenchRun& run : column) {
      if (run.status.ok() || run.status.message() == last) continue;
      last = run.status.message();
      absl::StrAppend(table, ModeName(run.mode), " under ", BudgetCell(column),
                      ": ", last, "\n");
    }
  }
}

void AppendField(absl::string_view key, const std::optional<uint64_t>& value,
                 JsonWriter& json) {
  json.Key(key);
  value.has_value() ? json.Uint(*value) : json.Null();
}

void AppendMeterFields(const BenchRun& run, JsonWriter& json) {
  for (const JsonValue::Member& member : run.meter.members()) {
    json.Key(member.first).Value(member.second);
  }
  AppendField("bytes_read_per_token", run.weight_bytes_per_token, json);
  AppendField("storage_bytes_per_token", run.storage_bytes_per_token, json);
}

void AppendGroupFields(const BenchRun& run, JsonWriter& json) {
  AppendField("limit_bytes", run.limit_bytes, json);
  AppendField("group_peak_bytes", run.group.peak_bytes, json);
  AppendField("group_limit_hits", run.group.num_limit_hits, json);
  AppendField("oom_kills", run.group.num_oom_kills, json);
}

}  // namespace

std::string BenchTable(const std::vector<BenchRun>& runs) {
  std::string table;
  const std::vector<Column> columns = ColumnsOf(runs);
  for (size_t begin = 0; begin < columns.size(); begin += kColumnsPerTable) {
    if (begin > 0) absl::StrAppend(&table, "\n");
    AppendTable(absl::MakeConstSpan(columns).subspan(begin, kColumnsPerTable),
                &table);
  }
  return table;
}

std::string BenchJson(const std::vector<BenchRun>& runs) {
  JsonWriter json;
  json.BeginObject().Key("runs").BeginArray();
  for (const BenchRun& run : runs) {
    json.BeginObject().Key("requested_mode").String(ModeName(run.mode));
    if (run.status.ok()) {
      AppendMeterFields(run, json);
      AppendGroupFields(run, json);
    } else {
      json.Key("mode").String(ModeName(run.mode));
      AppendField("ram_budget_bytes", run.ram_budget_bytes, json);
      AppendGroupFields(run, json);
      json.Key("error").String(run.status.message());
    }
    json.EndObject();
  }
  json.EndArray().EndObject();
  return absl::StrCat(json.text(), "\n");
}

}  // namespace lowmem::cli
