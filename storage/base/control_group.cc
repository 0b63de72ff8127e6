// SPDX-License-Identifier: Apache-2.0
#include "storage/base/control_group.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lowmem {
namespace {

// The path of this process's group in the hierarchy, from lines such as
// "4:memory:/a/b" (v1) and "0::/a/b" (v2).
std::optional<std::string> GroupPath(absl::string_view cgroup, bool is_v2) {
  for (absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(parts[1], ',');
    for (absl::string_view controller : controllers) {
      if (is_v2 ? parts[0] == "0" && controller.empty()
                : controller == "memory") {
        return std::string(parts[2]);
      }
    }
  }
  return std::nullopt;
}

// `path` seen from a mount that shows only what is below `mount_root`, as in a
// container. A group outside of what is mounted leaves the mounted group
// itself.
std::string BelowMount(absl::string_view path, absl::string_view mount_root) {
  if (mount_root != "/" && !absl::ConsumePrefix(&path, mount_root)) return "";
  if (!absl::StartsWith(path, "/") || absl::StrContains(path, "/..")) return "";
  absl::ConsumeSuffix(&path, "/");
  return std::string(path);
}

}  // namespace

std::optional<ControlGroup> FindMemoryGroup(absl::string_view mountinfo,
                                            absl::string_view cgroup,
                                            bool is_v2) {
  const std::optional<std::string> path = GroupPath(cgroup, is_v2);
  if (!path) return std::nullopt;
  // "id parent dev root mount-point options [optional fields] - type source
  // super-options"
  for (absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> mount =
        absl::StrSplit(halves.first, ' ');
    const std::vector<absl::string_view> type =
        absl::StrSplit(halves.second, ' ');
    if (mount.size() < 5 || type.size() < 3) continue;
    const std::vector<absl::string_view> options = absl::StrSplit(type[2], ',');
    bool has_memory = is_v2;
    for (absl::string_view option : options) has_memory |= option == "memory";
    if (type[0] != (is_v2 ? "cgroup2" : "cgroup") || !has_memory) continue;
    return ControlGroup{std::string(mount[4]), BelowMount(*path, mount[3]),
                        is_v2};
  }
  return std::nullopt;
}

}  // namespace lowmem
