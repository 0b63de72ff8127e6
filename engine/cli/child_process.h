// SPDX-License-Identifier: Apache-2.0
// Runs this very program once more, for a measurement that nothing before it
// has warmed or grown.

#ifndef LOWMEM_ENGINE_CLI_CHILD_PROCESS_H_
#define LOWMEM_ENGINE_CLI_CHILD_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/cli/memory_group.h"

namespace lowmem::cli {

// stdout of the program run with `args`; within `group`, unless it is null,
// from its first instruction on. A signal to this process, or its end, kills
// the child. Errors: the child's own error, with its exit code's status code
// and its message; kResourceExhausted when the kernel killed it for the group's
// limit; kInternal when it died of another signal; kUnavailable when it cannot
// be started; kCancelled.
absl::StatusOr<std::string> RunSelf(const std::vector<std::string>& args,
                                    const MemoryGroup* group);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_CHILD_PROCESS_H_
