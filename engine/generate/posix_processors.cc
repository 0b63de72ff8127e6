// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lowmem {
namespace {

// Files under /proc and /sys have no size to ask for; these are a few lines.
std::string ReadShortFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "re"),
                                                   &fclose);
  std::string text;
  if (file == nullptr) return text;
  text.resize(16384);
  text.resize(fread(text.data(), 1, text.size(), file.get()));
  return text;
}

std::optional<uint32_t> QuotaProcessors(absl::string_view quota_us,
                                        absl::string_view period_us) {
  uint64_t quota = 0;
  uint64_t period = 0;
  if (!absl::SimpleAtoi(quota_us, &quota) || quota == 0 ||
      !absl::SimpleAtoi(period_us, &period) || period == 0) {
    return std::nullopt;
  }
  const uint64_t processors = quota / period + (quota % period != 0);
  return static_cast<uint32_t>(std::min<uint64_t>(processors, UINT32_MAX));
}

// The group's own folder and all above it: the smallest quota binds.
void LowerToQuota(const std::string& mount, absl::string_view group, bool is_v2,
                  uint32_t& processors) {
  std::string path(absl::StripSuffix(group, "/"));
  while (true) {
    const std::string folder = absl::StrCat(mount, path);
    const std::optional<uint32_t> granted =
        is_v2
            ? ProcessorsFromCpuMax(
                  ReadShortFile(absl::StrCat(folder, "/cpu.max")))
            : QuotaProcessors(absl::StripAsciiWhitespace(ReadShortFile(
                                  absl::StrCat(folder, "/cpu.cfs_quota_us"))),
                              absl::StripAsciiWhitespace(ReadShortFile(
                                  absl::StrCat(folder, "/cpu.cfs_period_us"))));
    if (granted) processors = std::min(processors, *granted);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Numbers of the processors in this thread's mask; never none.
std::vector<uint32_t> AllowedProcessors() {
  // Larger than any cpu_set_t of a machine today; the kernel says how much it
  // used.
  std::vector<cpu_set_t> mask(16);
  const size_t mask_bytes = mask.size() * sizeof(cpu_set_t);
  std::vector<uint32_t> processors;
  if (sched_getaffinity(0, mask_bytes, mask.data()) == 0) {
    for (uint32_t i = 0; i < 8 * mask_bytes; ++i) {
      if (CPU_ISSET_S(i, mask_bytes, mask.data())) processors.push_back(i);
    }
  }
  if (processors.empty()) {
    processors.resize(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
    std::iota(processors.begin(), processors.end(), 0u);
  }
  return processors;
}

// How many numbers a list as "0-3,8" has; 0 for other text.
uint64_t ListSize(absl::string_view list) {
  uint64_t size = 0;
  for (absl::string_view range : absl::StrSplit(list, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    uint32_t last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return 0;
    last = first;
    if (absl::StrContains(range, '-') &&
        (!absl::SimpleAtoi(ends.second, &last) || last < first)) {
      return 0;
    }
    size += uint64_t{last} - first + 1;
  }
  return size;
}

// The hardware threads of a processor's core, as the kernel lists them; empty
// where it does not, or not believably.
std::string CoreList(uint32_t processor, const std::string& root) {
  constexpr uint64_t kMostThreadsOfACore = 8;  // POWER
  const std::string folder = absl::StrCat(root, "/sys/devices/system/cpu/cpu",
                                          processor, "/topology/");
  // The second is the name before Linux 5.3.
  for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
    const std::string text = ReadShortFile(absl::StrCat(folder, name));
    const absl::string_view list = absl::StripAsciiWhitespace(text);
    const uint64_t size = ListSize(list);
    if (size > 0 && size <= kMostThreadsOfACore) return std::string(list);
  }
  return "";
}

// `num_processors`, or less where a quota grants less.
uint32_t WithinQuota(size_t num_processors, const std::string& root) {
  uint32_t processors = static_cast<uint32_t>(num_processors);
  // Lines are "hierarchy:controllers:path"; v2 has no controllers.
  const std::string groups =
      ReadShortFile(absl::StrCat(root, "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(groups, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || absl::StrContains(fields[2], "..")) continue;
    if (fields[1].empty()) {
      LowerToQuota(absl::StrCat(root, "/sys/fs/cgroup"), fields[2], true,
                   processors);
      continue;
    }
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") !=
        controllers.end()) {
      LowerToQuota(absl::StrCat(root, "/sys/fs/cgroup/cpu"), fields[2], false,
                   processors);
    }
  }
  return std::max(processors, 1u);
}

}  // namespace

std::optional<uint32_t> ProcessorsFromCpuMax(absl::string_view text) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  if (fields.size() != 2) return std::nullopt;
  return QuotaProcessors(fields[0], fields[1]);
}

uint32_t CoresOf(absl::Span<const uint32_t> processors,
                 const std::string& root) {
  std::set<std::string> cores;
  for (const uint32_t processor : processors) {
    const std::string core = CoreList(processor, root);
    if (core.empty()) return static_cast<uint32_t>(processors.size());
    cores.insert(core);
  }
  return std::max(static_cast<uint32_t>(cores.size()), 1u);
}

uint32_t AvailableProcessors(const std::string& root) {
  return WithinQuota(AllowedProcessors().size(), root);
}

uint32_t AvailableCores(const std::string& root) {
  return WithinQuota(CoresOf(AllowedProcessors(), root), root);
}

}  // namespace lowmem
