// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/stats.h"

#include "absl/strings/str_cat.h"
#include "engine/generate/meter_format.h"
#include "storage/base/memory_meter.h"

namespace lowmem::cli {

void AppendMeter(const Meter& meter, JsonWriter& json) {
  WriteMeter(meter, json);
}

std::string StatsText(const Meter& meter, absl::string_view mode_reason) {
  std::string text = MeterToText(meter);
  if (!mode_reason.empty()) absl::StrAppend(&text, "why ", mode_reason, "\n");
  return text;
}

Meter ProcessMeter() {
  const ProcessMemory memory = ReadProcessMemory();
  Meter meter;
  meter.mode = "none";
  meter.vm_hwm_bytes = memory.vm_hwm_bytes;
  meter.rss_anon_bytes = memory.rss_anon_bytes;
  meter.rss_file_bytes = memory.rss_file_bytes;
  meter.cgroup_peak_bytes = memory.cgroup_peak_bytes;
  meter.major_faults = memory.major_faults;
  meter.storage_read_bytes = memory.storage_read_bytes;
  return meter;
}

}  // namespace lowmem::cli
