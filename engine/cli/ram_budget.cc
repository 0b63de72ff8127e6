// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/ram_budget.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "storage/base/units.h"

namespace lowmem::cli {

absl::StatusOr<uint64_t> AutoRamBudget(const ProcessMemory& memory) {
  constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
  const uint64_t smaller =
      std::min(memory.available_bytes.value_or(kUnknown),
               memory.cgroup_limit_bytes.value_or(kUnknown));
  if (smaller == kUnknown) {
    return absl::InvalidArgumentError(
        "--ram-budget: auto: this system tells neither available memory nor a "
        "limit; expected a size such as 512M");
  }
  const uint64_t margin = std::max(smaller / 16, 32 * kMiB);
  if (smaller <= margin) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--ram-budget: auto: no memory to spare; expected more than ",
        FormatBytes(margin), ", got ", FormatBytes(smaller)));
  }
  return smaller - margin;
}

absl::StatusOr<uint64_t> ParseRamBudget(absl::string_view text) {
  return text == "auto" ? AutoRamBudget(ReadProcessMemory()) : ParseBytes(text);
}

}  // namespace lowmem::cli
