// SPDX-License-Identifier: Apache-2.0
#include "tests/e2e/budget_fixture.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"

namespace lowmem::testing {
namespace {

std::vector<std::string> GlobalArgs(const BudgetRun& run) {
  std::vector<std::string> args = {"-q",
                                   "-m",
                                   run.model,
                                   "--mode",
                                   run.mode,
                                   "-t",
                                   absl::StrCat(run.num_threads)};
  if (run.budget_bytes.has_value()) {
    args.insert(args.end(), {"--ram-budget", absl::StrCat(*run.budget_bytes)});
  }
  return args;
}

}  // namespace

std::vector<std::string> ArgsOf(const BudgetRun& run) {
  std::vector<std::string> args = GlobalArgs(run);
  args.insert(args.end(), {"--json", "generate", "--prompt-ids",
                           CommaSeparated(run.prompt_ids), "-n",
                           absl::StrCat(run.num_new_tokens), "--ignore-eos"});
  args.insert(args.end(), run.more_args.begin(), run.more_args.end());
  return args;
}

BudgetResult Generate(const BudgetRun& run) {
  LaunchOptions launch;
  launch.command.program = Cli();
  launch.command.args = ArgsOf(run);
  std::unique_ptr<cli::MemoryGroup> group;
  if (run.limit_bytes.has_value()) {
    auto made = cli::MemoryGroup::Create(*run.limit_bytes);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) {
      group = *std::move(made);
      launch.groups.push_back(group->processes_path());
    }
  }
  BudgetResult result;
  result.process = RunLaunched(launch);
  if (group != nullptr) result.group = group->Usage();
  EXPECT_EQ(result.process.exit_code, 0)
      << "signal " << result.process.signal << ", oom kills "
      << result.group.num_oom_kills.value_or(0) << "\n"
      << result.process.err;
  if (result.process.exit_code != 0) return result;
  const JsonValue json = ParseJsonText(result.process.out);
  result.ids = Integers(At(json, "ids"));
  result.stats = At(json, "stats");
  return result;
}

bool CanLimit(std::string* reason) {
  if (kIsSanitized) {
    *reason = "sanitizers need memory of their own";
    return false;
  }
  const auto group = cli::MemoryGroup::Create(64 << 20);
  if (!group.ok()) *reason = std::string(group.status().message());
  return group.ok();
}

uint64_t LeastBudget(const std::string& model, const std::string& mode,
                     int num_threads) {
  const SubprocessResult info =
      RunCli({"-m", model, "--json", "-t", absl::StrCat(num_threads), "info"});
  EXPECT_EQ(info.exit_code, 0) << info.err;
  const JsonValue json = ParseJsonText(info.out);
  const uint64_t least =
      At(At(At(json, "forecast"), mode), "min_required_bytes")
          .AsUint64()
          .value_or(0);
  EXPECT_GT(least, 0u);
  return least;
}

std::vector<uint64_t> BudgetsUpToTheModel(const std::string& model,
                                          const std::string& mode, int count) {
  const uint64_t least = LeastBudget(model, mode);
  const uint64_t whole = std::max(least, LeastBudget(model, "copy"));
  std::vector<uint64_t> budgets;
  for (int i = 0; i < count; ++i) {
    budgets.push_back(least + (whole - least) * i / (count - 1));
  }
  return budgets;
}

std::string Trace(const BudgetRun& run) {
  const TempFolder folder;
  std::vector<std::string> args = GlobalArgs(run);
  args.insert(args.end(),
              {"trace", "--prompt-ids", CommaSeparated(run.prompt_ids), "--out",
               folder.Path("trace")});
  const SubprocessResult result = RunCli(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? ReadFile(folder.Path("trace")) : "";
}

}  // namespace lowmem::testing
