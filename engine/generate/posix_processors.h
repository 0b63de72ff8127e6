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
#include "absl/types/span.h"

namespace lowmem {

// `root` is put before the paths /proc and /sys. All results are at least 1.

// Hardware threads that may run at a time.
uint32_t AvailableProcessors(const std::string& root = "");

// Physical cores that may run at a time: as many threads as it pays to compute
// with, since hardware threads of one core share what matrix products need.
uint32_t AvailableCores(const std::string& root = "");

// Physical cores to which these hardware threads belong, by /sys. As many as
// there are hardware threads where /sys does not say, or says of one core that
// it has more than 8, as some virtual machines do. Cores of different kinds
// count alike.
uint32_t CoresOf(absl::Span<const uint32_t> processors,
                 const std::string& root);

// Processors that cpu.max of cgroup v2 ("200000 100000", "max 100000") grants,
// rounded up; nullopt without a limit or for other text.
std::optional<uint32_t> ProcessorsFromCpuMax(absl::string_view text);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_POSIX_PROCESSORS_H_
