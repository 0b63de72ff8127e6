// SPDX-License-Identifier: Apache-2.0
// A memory control group of a given size, for running a program under a limit
// that the kernel holds: page cache, page tables and pipes count, not only what
// the program knows of. Version 1 or 2, whichever governs memory here. Swap is
// denied where the kernel accounts for it.

#ifndef LOWMEM_ENGINE_CLI_MEMORY_GROUP_H_
#define LOWMEM_ENGINE_CLI_MEMORY_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace lowmem::cli {

// What the kernel has counted; absent where it does not say.
struct MemoryGroupUsage {
  std::optional<uint64_t> peak_bytes;
  // How often memory had to be taken back because the limit was reached. Some
  // kernels (6.18) have the file of version 1 and no longer count in it.
  std::optional<uint64_t> num_limit_hits;
  std::optional<uint64_t> num_oom_kills;
};

// The system as MemoryGroup sees it; tests put folders of their own in its
// place, whose files no kernel makes.
struct ControlGroupSystem {
  std::string root;  // stands before every path
  // Makes one folder, removes one that holds no processes. False: refused.
  std::function<bool(const std::string& path)> make_folder;
  std::function<bool(const std::string& path)> remove_folder;

  static ControlGroupSystem Kernel();
};

// Ownership: the group and what runs in it; both end with this object. A
// process that dies of SIGKILL leaves its empty groups behind.
// Thread safety: one thread at a time; Join is async-signal-safe.
class MemoryGroup {
 public:
  // A new group below that of this process or, where the kernel or a permission
  // forbids it, below the nearest one above. `limit_bytes` is rounded down to
  // whole pages; limits above it hold as well.
  // Errors: kUnimplemented, with the reason, where no group can be made.
  static absl::StatusOr<std::unique_ptr<MemoryGroup>> Create(
      uint64_t limit_bytes,
      const ControlGroupSystem& system = ControlGroupSystem::Kernel());
  ~MemoryGroup();
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  // Moves the calling process into the group. For a child between fork and
  // exec, so that the new program is charged from its first instruction on.
  // False: errno says why.
  bool Join() const;

  // The file that takes "0" for "the one who writes".
  std::string processes_path() const;

  MemoryGroupUsage Usage() const;

 private:
  MemoryGroup(std::string folder, bool is_v2, ControlGroupSystem system)
      : folder_(std::move(folder)), is_v2_(is_v2), system_(std::move(system)) {}
  absl::Status SetLimit(uint64_t limit_bytes);
  // Kills what runs in the group. False once there is nothing.
  bool KillProcesses() const;

  const std::string folder_;
  const bool is_v2_;
  const ControlGroupSystem system_;
  int processes_fd_ = -1;
};

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_MEMORY_GROUP_H_
