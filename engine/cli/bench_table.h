// SPDX-License-Identifier: Apache-2.0
// Meters of several runs side by side, for people and for programs.

#ifndef LOWMEM_ENGINE_CLI_BENCH_TABLE_H_
#define LOWMEM_ENGINE_CLI_BENCH_TABLE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lowmem/options.h"
#include "storage/base/json.h"

namespace lowmem::cli {

// One run: its meter as the process that ran it printed it, or why there is
// none.
struct BenchRun {
  Mode mode = Mode::kMmap;
  std::optional<uint64_t> ram_budget_bytes;
  absl::Status status;
  JsonValue meter;  // null unless status is OK
};

// A column a run, a line a figure, so that the modes stand side by side; below
// it why runs failed. Many runs are cut into several tables.
std::string BenchTable(const std::vector<BenchRun>& runs);

// {"runs": [meter, ...]}, each with "bytes_read_per_token" (weights, while
// decoding) behind the meter's own fields; a run that failed is {"mode",
// "ram_budget_bytes", "error"}.
std::string BenchJson(const std::vector<BenchRun>& runs);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_BENCH_TABLE_H_
