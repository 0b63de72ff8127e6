// SPDX-License-Identifier: Apache-2.0
// Meters of several runs side by side, for people and for programs.

#ifndef LOWMEM_ENGINE_CLI_BENCH_TABLE_H_
#define LOWMEM_ENGINE_CLI_BENCH_TABLE_H_

#include <string>
#include <vector>

#include "engine/cli/bench_run.h"

namespace lowmem::cli {

// A column a mode and budget, a line a figure, so that the modes stand side by
// side; below it why runs failed. Of repeats a column has the medians, and the
// slowest and fastest. Many columns are cut into several tables.
std::string BenchTable(const std::vector<BenchRun>& runs);

// {"runs": [run, ...]}: "requested_mode", which may be auto, the fields of the
// meter ("mode": what was taken) and, behind them,
// "bytes_read_per_token" (weights used, while decoding),
// "storage_bytes_per_token", "limit_bytes" (of the run's memory group, or
// null), "group_peak_bytes", "group_limit_hits", "oom_kills". A run that failed
// is
// {"requested_mode", "mode" (the same), "ram_budget_bytes", the last four,
// "error"}.
std::string BenchJson(const std::vector<BenchRun>& runs);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_BENCH_TABLE_H_
