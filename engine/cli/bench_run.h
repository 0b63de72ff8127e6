// SPDX-License-Identifier: Apache-2.0
// One run of bench: what is asked of it, what came of it, and the two sides of
// the process that does it.

#ifndef LOWMEM_ENGINE_CLI_BENCH_RUN_H_
#define LOWMEM_ENGINE_CLI_BENCH_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/cli/console.h"
#include "engine/cli/flags.h"
#include "engine/cli/memory_group.h"
#include "lowmem/options.h"
#include "storage/base/json.h"

namespace lowmem::cli {

struct BenchRun {
  Mode mode = Mode::kMmap;
  std::optional<uint64_t> ram_budget_bytes;

  // Why there is no meter, or OK.
  absl::Status status;
  // As the run's process printed it; null unless `status` is OK.
  JsonValue meter;
  // For each token but the first: weights that were used, wherever they lay,
  // and what was read from storage. Absent for a single token; the second also
  // where the system does not count.
  std::optional<uint64_t> weight_bytes_per_token;
  std::optional<uint64_t> storage_bytes_per_token;
  // The memory group of exactly the budget in which it ran, or why there was
  // none; neither without a budget.
  std::optional<uint64_t> limit_bytes;
  std::string no_limit_reason;
  MemoryGroupUsage group;
};

// Does `run` in a process of its own and fills in what came of it. Errors: of
// bench itself; a run that is refused or killed has its own status.
absl::Status MeasureRun(const Flags& flags, BenchRun& run);

// What that process does: one generation, measured, to stdout.
absl::Status RunMeasured(const Flags& flags, Console& console);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_BENCH_RUN_H_
