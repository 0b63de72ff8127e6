// SPDX-License-Identifier: Apache-2.0
// Generations under a budget, within a memory group of that size or without,
// and what the kernel says they cost.

#ifndef LOWMEM_TESTS_E2E_BUDGET_FIXTURE_H_
#define LOWMEM_TESTS_E2E_BUDGET_FIXTURE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/cli/memory_group.h"
#include "tests/e2e/cli_fixture.h"
#include "tests/support/launch.h"

namespace lowmem::testing {

// A sanitizer's shadow is many times what a budget allows: peaks and groups say
// nothing then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

struct BudgetRun {
  std::string model;
  std::string mode;
  std::optional<uint64_t> budget_bytes;
  int num_threads = 2;
  std::vector<int64_t> prompt_ids = {267, 220, 71, 300};
  int num_new_tokens = 3;
  // Of a group; above the budget where the test says why.
  std::optional<uint64_t> limit_bytes;
  std::vector<std::string> more_args;
};

// "generate ... --json" as the run says.
std::vector<std::string> ArgsOf(const BudgetRun& run);

struct BudgetResult {
  LaunchResult process;
  std::vector<int64_t> ids;
  JsonValue stats;
  cli::MemoryGroupUsage group;  // empty without a limit

  uint64_t Stat(const std::string& name) const {
    return At(stats, name).AsUint64().value_or(0);
  }
};

// Fails the test when the run does not end with 0.
// REQUIRES: CanLimit() where there is a limit.
BudgetResult Generate(const BudgetRun& run);

// Whether memory groups can be made here, and mean something. Otherwise
// `reason` says why not.
bool CanLimit(std::string* reason);

// What `info` gives as the least budget of a mode, and what copy needs: the
// whole model.
uint64_t LeastBudget(const std::string& model, const std::string& mode,
                     int num_threads = 2);

// `count` budgets from the least of the mode to one that holds the model,
// evenly spaced.
std::vector<uint64_t> BudgetsUpToTheModel(const std::string& model,
                                          const std::string& mode, int count);

// Bytes of the tensors of `trace`, in a file of its own.
std::string Trace(const BudgetRun& run);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_E2E_BUDGET_FIXTURE_H_
