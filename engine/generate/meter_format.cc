// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/meter_format.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// Calls `visit`(name, unit, value) for each field in order; the one list of
// them.
enum class Unit {
  kText,
  kCount,
  kBytes,
  kSeconds,
  kRatio,
  kPerSecond,
  kBytesPerSecond
};

template <typename Visit>
void ForEachField(const Meter& meter, Visit visit) {
  visit("mode", Unit::kText, meter.mode);
  visit("threads", Unit::kCount, std::optional<uint64_t>(meter.threads));
  const auto bytes = [&](absl::string_view name,
                         std::optional<uint64_t> value) {
    visit(name, Unit::kBytes, value);
  };
  bytes("ram_budget_bytes", meter.ram_budget_bytes);
  bytes("model_bytes", meter.model_bytes);
  bytes("resident_weight_bytes", meter.resident_weight_bytes);
  bytes("arena_bytes", meter.arena_bytes);
  bytes("kv_bytes", meter.kv_bytes);
  bytes("vm_hwm_bytes", meter.vm_hwm_bytes);
  bytes("rss_anon_bytes", meter.rss_anon_bytes);
  bytes("rss_file_bytes", meter.rss_file_bytes);
  bytes("cgroup_peak_bytes", meter.cgroup_peak_bytes);
  bytes("page_cache_bytes", meter.page_cache_bytes);
  visit("major_faults", Unit::kCount, meter.major_faults);
  bytes("storage_read_bytes", meter.storage_read_bytes);
  bytes("weight_bytes_read", meter.weight_bytes_read);
  visit("prompt_tokens", Unit::kCount,
        std::optional<uint64_t>(meter.prompt_tokens));
  visit("generated_tokens", Unit::kCount,
        std::optional<uint64_t>(meter.generated_tokens));
  visit("prefill_weight_passes", Unit::kRatio, meter.prefill_weight_passes);
  visit("decode_weight_passes", Unit::kRatio, meter.decode_weight_passes);
  visit("load_s", Unit::kSeconds, meter.load_s);
  visit("time_to_first_token_s", Unit::kSeconds, meter.time_to_first_token_s);
  visit("prefill_tokens_per_s", Unit::kPerSecond, meter.prefill_tokens_per_s);
  visit("decode_tokens_per_s", Unit::kPerSecond, meter.decode_tokens_per_s);
  visit("io", Unit::kText, meter.io);
  visit("io_bytes_per_s", Unit::kBytesPerSecond, meter.io_bytes_per_s);
}

struct JsonVisitor {
  JsonWriter& json;
  void operator()(absl::string_view name, Unit, const std::string& value) {
    json.Key(name);
    value.empty() ? json.Null() : json.String(value);
  }
  void operator()(absl::string_view name, Unit, std::optional<uint64_t> value) {
    json.Key(name);
    value ? json.Uint(*value) : json.Null();
  }
  void operator()(absl::string_view name, Unit, std::optional<double> value) {
    json.Key(name);
    value ? json.Double(*value) : json.Null();
  }
};

struct TextVisitor {
  std::string& text;

  void Line(absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&text, "%-24s%s\n", name, value);
  }
  void operator()(absl::string_view name, Unit, const std::string& value) {
    Line(name, value.empty() ? "-" : value);
  }
  void operator()(absl::string_view name, Unit unit,
                  std::optional<uint64_t> value) {
    if (!value) return Line(name, "-");
    Line(name,
         unit == Unit::kBytes ? FormatBytes(*value) : absl::StrCat(*value));
  }
  void operator()(absl::string_view name, Unit unit,
                  std::optional<double> value) {
    if (!value) return Line(name, "-");
    if (unit == Unit::kBytesPerSecond) {
      return Line(
          name, absl::StrCat(FormatBytes(static_cast<uint64_t>(*value)), "/s"));
    }
    Line(name, unit == Unit::kSeconds ? absl::StrFormat("%.3f s", *value)
                                      : absl::StrFormat("%.2f", *value));
  }
};

}  // namespace

void WriteMeter(const Meter& meter, JsonWriter& json) {
  json.BeginObject();
  ForEachField(meter, JsonVisitor{json});
  json.EndObject();
}

std::string MeterToJson(const Meter& meter) {
  JsonWriter json;
  WriteMeter(meter, json);
  return json.TakeText();
}

std::string MeterToText(const Meter& meter) {
  std::string text;
  ForEachField(meter, TextVisitor{text});
  return text;
}

}  // namespace lowmem
