// SPDX-License-Identifier: Apache-2.0
// How many processors this process may use: its affinity mask and the processor
// quota of its control groups (v1 and v2). A container with two processors'
// worth of quota on a large machine must not start a thread for each core.

#ifndef LOWMEM_ENGINE_GENERATE_POSIX_PROCESSORS_H_
#define LOWMEM_ENGINE_GENERATE_POSIX_PROCESSORS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem {

// At least 1. `root` is put before the paths /proc and /sys.
uint32_t AvailableProcessors(const std::string& root = "");

// Processors that cpu.max of cgroup v2 ("200000 100000", "max 100000") grants,
// rounded up; nullopt without a limit or for other text.
std::optional<uint32_t> ProcessorsFromCpuMax(absl::string_view text);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_POSIX_PROCESSORS_H_
