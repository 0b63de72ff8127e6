// SPDX-License-Identifier: Apache-2.0
// What `info --plan` prints: which rows of which matrix stay under a budget,
// what each kind of memory takes, and how fast that can be at most.

#ifndef LOWMEM_ENGINE_CLI_PLAN_REPORT_H_
#define LOWMEM_ENGINE_CLI_PLAN_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate/model_summary.h"
#include "storage/base/json_writer.h"
#include "storage/read_rate.h"

namespace lowmem::cli {

struct PlanRow {
  std::string name;
  uint64_t num_rows = 0;
  uint64_t resident_rows = 0;
  uint64_t row_bytes = 0;
  bool is_looked_up = false;  // a token uses one row of it

  uint64_t streamed_rows() const { return num_rows - resident_rows; }
  // Read from storage for a token, at most.
  uint64_t bytes_per_token() const;
};

struct PlanAccount {
  const char* name;  // for people
  const char* key;   // in JSON
  uint64_t num_bytes = 0;
};

struct PlanReport {
  Mode mode = Mode::kStream;
  std::vector<PlanRow> rows;  // a tensor each, in order of use
  std::vector<PlanAccount> accounts;
  uint32_t context_tokens = 0;
  uint32_t chunk_tokens = 0;
  uint64_t streamed_bytes_per_token = 0;  // without rows that are looked up
  uint64_t weight_bytes_per_token = 0;
  std::optional<ReadRate> read_rate;  // measured

  // The sum of the accounts: what the process holds at most.
  uint64_t peak_bytes() const;
  // nullopt when nothing streams or nothing was measured.
  std::optional<double> max_tokens_per_s() const;
};

// REQUIRES: summary.placement.
PlanReport ReportPlan(const ModelSummary& summary);

std::string PlanToText(const PlanReport& report);
void WritePlan(const PlanReport& report, JsonWriter& json);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_PLAN_REPORT_H_
