// SPDX-License-Identifier: Apache-2.0
#include "storage/base/memory_meter.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "storage/base/control_group.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// Above any list of mounts that was seen, and a bound on what a planted one
// costs.
constexpr size_t kMaxFileBytes = 1u << 20;

// The file's text; empty where there is none. Files of /proc have no size, so
// it is read to its end.
std::string ReadText(const std::string& path) {
  std::string text;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char part[4096];
  ssize_t num_bytes;
  while (text.size() < kMaxFileBytes &&
         (num_bytes = read(fd, part, sizeof(part))) > 0) {
    text.append(part, num_bytes);
  }
  close(fd);
  return text;
}

std::optional<uint64_t> LeadingUint(absl::string_view text) {
  text = absl::StripLeadingAsciiWhitespace(text);
  uint64_t value;
  const std::from_chars_result result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The number behind "label" at the start of a line.
std::optional<uint64_t> FindField(absl::string_view text,
                                  absl::string_view label) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, label)) return LeadingUint(line);
  }
  return std::nullopt;
}

std::optional<uint64_t> FindKilobytes(absl::string_view text,
                                      absl::string_view label) {
  const std::optional<uint64_t> kilobytes = FindField(text, label);
  if (!kilobytes) return std::nullopt;
  return *kilobytes * kKiB;
}

// Field 12 of /proc/self/stat. Field 2, the program's name in parentheses, may
// hold spaces and parentheses, so fields are counted from the last one.
std::optional<uint64_t> MajorFaults(absl::string_view stat) {
  const size_t name_end = stat.rfind(") ");
  if (name_end == absl::string_view::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(name_end + 2), ' ');
  constexpr size_t kMajorFaultsIdx = 12 - 3;
  if (fields.size() <= kMajorFaultsIdx) return std::nullopt;
  return LeadingUint(fields[kMajorFaultsIdx]);
}

struct GroupFiles {
  const char* limit;
  const char* peak;
  const char* used;
  // Of memory.stat, groups below included.
  const char* cache_labels[2];
};
constexpr GroupFiles kFilesV1 = {
    "/memory.limit_in_bytes",
    "/memory.max_usage_in_bytes",
    "/memory.usage_in_bytes",
    {"total_inactive_file ", "total_active_file "}};
constexpr GroupFiles kFilesV2 = {"/memory.max",
                                 "/memory.peak",
                                 "/memory.current",
                                 {"inactive_file ", "active_file "}};

// Nothing known to be used is nothing used.
uint64_t UsedBytes(const std::string& folder, const GroupFiles& files) {
  const uint64_t used_bytes =
      LeadingUint(ReadText(folder + files.used)).value_or(0);
  const std::string stat = ReadText(folder + "/memory.stat");
  uint64_t cache_bytes = 0;
  for (const char* label : files.cache_labels) {
    cache_bytes += FindField(stat, label).value_or(0);
  }
  return used_bytes - std::min(cache_bytes, used_bytes);
}

void ReadMemoryGroup(const std::string& root, const ControlGroup& group,
                     ProcessMemory& memory) {
  const GroupFiles& files = group.is_v2 ? kFilesV2 : kFilesV1;
  // Version 1 says "no limit" with a number just below 2^63, version 2 with
  // "max".
  constexpr uint64_t kNoLimitBytes = uint64_t{1} << 62;

  const std::string base = absl::StrCat(root, group.mount_point);
  const std::optional<uint64_t> peak_bytes =
      LeadingUint(ReadText(absl::StrCat(base, group.path, files.peak)));
  if (peak_bytes) memory.cgroup_peak_bytes = peak_bytes;
  for (std::string path = group.path;; path.resize(path.rfind('/'))) {
    const std::string folder = base + path;
    const std::optional<uint64_t> limit_bytes =
        LeadingUint(ReadText(folder + files.limit));
    if (limit_bytes && *limit_bytes < kNoLimitBytes) {
      const uint64_t available_bytes =
          *limit_bytes - std::min(UsedBytes(folder, files), *limit_bytes);
      memory.cgroup_available_bytes =
          std::min(available_bytes,
                   memory.cgroup_available_bytes.value_or(kNoLimitBytes));
    }
    if (path.empty()) return;
  }
}

}  // namespace

ProcessMemory ReadProcessMemory(const std::string& root) {
  ProcessMemory memory;
  const std::string status = ReadText(root + "/proc/self/status");
  memory.vm_hwm_bytes = FindKilobytes(status, "VmHWM:");
  memory.rss_anon_bytes = FindKilobytes(status, "RssAnon:");
  memory.rss_file_bytes = FindKilobytes(status, "RssFile:");
  memory.major_faults = MajorFaults(ReadText(root + "/proc/self/stat"));
  memory.storage_read_bytes =
      FindField(ReadText(root + "/proc/self/io"), "read_bytes:");
  memory.available_bytes =
      FindKilobytes(ReadText(root + "/proc/meminfo"), "MemAvailable:");

  const std::string cgroup = ReadText(root + "/proc/self/cgroup");
  const std::string mountinfo = ReadText(root + "/proc/self/mountinfo");
  // Both versions may be mounted; memory is governed by the one that has its
  // files.
  for (const bool is_v2 : {false, true}) {
    if (const auto group = FindMemoryGroup(mountinfo, cgroup, is_v2)) {
      ReadMemoryGroup(root, *group, memory);
    }
  }
  return memory;
}

}  // namespace lowmem
