// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
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

uint32_t AffinityProcessors() {
  // Larger than any cpu_set_t of a machine today; the kernel says how much it
  // used.
  std::vector<cpu_set_t> mask(16);
  if (sched_getaffinity(0, mask.size() * sizeof(cpu_set_t), mask.data()) == 0) {
    const int count = CPU_COUNT_S(mask.size() * sizeof(cpu_set_t), mask.data());
    if (count > 0) return static_cast<uint32_t>(count);
  }
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<uint32_t>(online) : 1;
}

}  // namespace

std::optional<uint32_t> ProcessorsFromCpuMax(absl::string_view text) {
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
  if (fields.size() != 2) return std::nullopt;
  return QuotaProcessors(fields[0], fields[1]);
}

uint32_t AvailableProcessors(const std::string& root) {
  uint32_t processors = AffinityProcessors();
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

}  // namespace lowmem
