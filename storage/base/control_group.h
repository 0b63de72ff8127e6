// SPDX-License-Identifier: Apache-2.0
// Where the kernel keeps the memory control group of a process: pure functions
// of the texts of /proc/<pid>/cgroup and /proc/<pid>/mountinfo. What the files
// there hold is not known here.

#ifndef LOWMEM_STORAGE_BASE_CONTROL_GROUP_H_
#define LOWMEM_STORAGE_BASE_CONTROL_GROUP_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem {

// The folder where a hierarchy is mounted, and the path of a process's group
// below it: "/a/b", or "" for the mounted group itself.
struct ControlGroup {
  std::string mount_point;
  std::string path;
  bool is_v2 = false;
};

// The group that may govern memory, in the hierarchy of version 1 or 2. A v2
// hierarchy is found whether or not memory is governed there: its files tell.
std::optional<ControlGroup> FindMemoryGroup(absl::string_view mountinfo,
                                            absl::string_view cgroup,
                                            bool is_v2);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_CONTROL_GROUP_H_
