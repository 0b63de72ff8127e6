// SPDX-License-Identifier: Apache-2.0
// `--ram-budget SIZE|auto`; auto: what this process may take without pushing
// others out.

#ifndef LOWMEM_ENGINE_CLI_RAM_BUDGET_H_
#define LOWMEM_ENGINE_CLI_RAM_BUDGET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/base/memory_meter.h"

namespace lowmem::cli {

// The smaller of what the machine and what the control group have available,
// less a margin of 1/16, at least 32 MiB and 4 MiB, for what else runs there.
// Errors:
// kInvalidArgument when the system tells neither figure; kResourceExhausted
// when the margin leaves nothing.
absl::StatusOr<uint64_t> AutoRamBudget(const ProcessMemory& memory);

// A size such as "512M", or "auto" for what the machine allows now. Errors:
// those of ParseBytes and AutoRamBudget.
absl::StatusOr<uint64_t> ParseRamBudget(absl::string_view text);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_RAM_BUDGET_H_
