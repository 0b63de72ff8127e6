// SPDX-License-Identifier: Apache-2.0
// What this process has mapped of a file, from the page tables themselves.

#ifndef LOWMEM_TESTS_SUPPORT_MAPPED_MEMORY_H_
#define LOWMEM_TESTS_SUPPORT_MAPPED_MEMORY_H_

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace lowmem::testing {

struct MappedMemory {
  uint64_t num_mappings = 0;
  uint64_t resident_bytes = 0;  // present in the page tables
};

inline MappedMemory MappedMemoryOf(const std::string& path) {
  const std::string name = std::filesystem::canonical(path).string();
  MappedMemory memory;
  std::ifstream smaps("/proc/self/smaps");
  bool is_of_file = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long long begin = 0;
    unsigned long long end = 0;
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      is_of_file =
          line.size() > name.size() &&
          line.compare(line.size() - name.size(), name.size(), name) == 0;
      memory.num_mappings += is_of_file;
    } else if (is_of_file &&
               std::sscanf(line.c_str(), "Rss: %llu kB", &kib) == 1) {
      memory.resident_bytes += kib * 1024;
    }
  }
  return memory;
}

// Page tables of the whole process.
inline uint64_t PageTableBytes() {
  std::ifstream status("/proc/self/status");
  unsigned long long kib = 0;
  for (std::string line; std::getline(status, line);) {
    if (std::sscanf(line.c_str(), "VmPTE: %llu kB", &kib) == 1) break;
  }
  return kib * 1024;
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_MAPPED_MEMORY_H_
