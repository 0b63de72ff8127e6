// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/ram_budget.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

// Of a machine others use as well, and of a group that may be there for this
// process alone: for what the kernel takes, and what comes later.
constexpr uint64_t kLeastMarginOfMachine = 32 * kMiB;
constexpr uint64_t kLeastMarginOfGroup = 4 * kMiB;

struct Available {
  const char* name;
  std::optional<uint64_t> num_bytes;
  uint64_t least_margin_bytes;
};

}  // namespace

absl::StatusOr<uint64_t> AutoRamBudget(const ProcessMemory& memory) {
  std::optional<uint64_t> budget;
  for (const Available& available :
       {Available{"the machine", memory.available_bytes, kLeastMarginOfMachine},
        Available{"the control group", memory.cgroup_available_bytes,
                  kLeastMarginOfGroup}}) {
    if (!available.num_bytes) continue;
    const uint64_t margin =
        std::max(*available.num_bytes / 16, available.least_margin_bytes);
    if (*available.num_bytes <= margin) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "--ram-budget: auto: ", available.name,
          " has no memory to spare; expected more than ", FormatBytes(margin),
          ", got ", FormatBytes(*available.num_bytes)));
    }
    budget = std::min(budget.value_or(*available.num_bytes),
                      *available.num_bytes - margin);
  }
  if (!budget) {
    return absl::InvalidArgumentError(
        "--ram-budget: auto: this system tells neither available memory nor a "
        "limit; expected a size such as 512M");
  }
  return *budget;
}

absl::StatusOr<uint64_t> ParseRamBudget(absl::string_view text) {
  return text == "auto" ? AutoRamBudget(ReadProcessMemory()) : ParseBytes(text);
}

}  // namespace lowmem::cli
