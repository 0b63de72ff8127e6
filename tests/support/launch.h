// SPDX-License-Identifier: Apache-2.0
// Programs under limits that hold from their first instruction on, and what the
// kernel says they cost.

#ifndef LOWMEM_TESTS_SUPPORT_LAUNCH_H_
#define LOWMEM_TESTS_SUPPORT_LAUNCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace lowmem::testing {

struct LaunchOptions {
  SubprocessOptions command;
  // cgroup.procs of the groups that the program is born in.
  std::vector<std::string> groups;
  bool forbid_io_uring = false;
};

// The same command, begun by the launcher, whose process it takes over: signals
// reach it.
SubprocessOptions Launched(const LaunchOptions& options);

struct LaunchResult : SubprocessResult {
  uint64_t peak_bytes = 0;          // resident, by wait4
  uint64_t storage_read_bytes = 0;  // by /proc/<pid>/io
};

// Start, wait and count. Signals reach the launcher, not the program.
LaunchResult RunLaunched(const LaunchOptions& options);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_LAUNCH_H_
