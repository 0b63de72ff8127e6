// SPDX-License-Identifier: Apache-2.0
// What the kernel says this process holds and has done. Read from /proc/self
// and the memory control group (v1 or v2); a figure that the system does not
// give is absent, never zero.

#ifndef LOWMEM_STORAGE_BASE_MEMORY_METER_H_
#define LOWMEM_STORAGE_BASE_MEMORY_METER_H_

#include <cstdint>
#include <optional>
#include <string>

namespace lowmem {

struct ProcessMemory {
  std::optional<uint64_t> vm_hwm_bytes;  // peak resident set
  std::optional<uint64_t> rss_anon_bytes;
  std::optional<uint64_t> rss_file_bytes;
  std::optional<uint64_t> major_faults;
  std::optional<uint64_t>
      storage_read_bytes;  // caused to be fetched from storage
  std::optional<uint64_t> cgroup_peak_bytes;  // of the group the process is in
  // Smallest of the group and those around it: the limit less what is used and
  // is no page cache.
  std::optional<uint64_t> cgroup_available_bytes;
  std::optional<uint64_t> available_bytes;  // MemAvailable of the machine
};

// Costs a few small reads under /proc and /sys; no state is kept. `root` stands
// before every path that is read, for tests with files of their own.
ProcessMemory ReadProcessMemory(const std::string& root = "");

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_MEMORY_METER_H_
