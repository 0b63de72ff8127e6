// SPDX-License-Identifier: Apache-2.0
// lowmem-run bench: each mode under each budget, each in a process of its own,
// since peaks never fall and a warm allocator hides what loading costs.
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/cli/bench_run.h"
#include "engine/cli/bench_table.h"
#include "engine/cli/command.h"
#include "engine/cli/signals.h"
#include "storage/base/status_macros.h"
#include "storage/checkpoint.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "storage/model_files.h"

namespace lowmem::cli {
namespace {

constexpr char kJsonName[] = "bench.json";
constexpr char kTableName[] = "bench.txt";

void ForgetCachedPages(const Checkpoint& checkpoint) {
  for (const std::unique_ptr<RandomAccessFile>& file : checkpoint.files()) {
    file->DropCache(0, file->size_bytes());
  }
}

// All runs in order, without results yet.
std::vector<BenchRun> PlannedRuns(const BenchFlags& bench) {
  std::vector<std::optional<uint64_t>> budgets(bench.budgets_bytes.begin(),
                                               bench.budgets_bytes.end());
  if (budgets.empty()) budgets.push_back(std::nullopt);
  std::vector<BenchRun> runs;
  for (const std::optional<uint64_t>& budget : budgets) {
    for (const Mode mode : bench.modes) {
      for (uint32_t i = 0; i < bench.num_repeats; ++i) {
        runs.emplace_back();
        runs.back().mode = mode;
        runs.back().ram_budget_bytes = budget;
      }
    }
  }
  return runs;
}

// A report that can be written, and is not yet.
absl::StatusOr<std::unique_ptr<AtomicFile>> CreateReport(
    const Checkpoint& checkpoint, const std::string& folder,
    absl::string_view name) {
  const std::string path = JoinPath(folder, name);
  LOWMEM_RETURN_IF_ERROR(CheckSparesModel(checkpoint, path));
  return AtomicFile::Create(path);
}

absl::Status WriteReport(const Checkpoint& checkpoint,
                         const std::string& folder, absl::string_view name,
                         absl::string_view text) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          CreateReport(checkpoint, folder, name));
  LOWMEM_RETURN_IF_ERROR(file->Append(text));
  return file->Commit();
}

// Before hours of measuring: makes the folder and sees whether the reports
// could be written.
absl::Status PrepareReports(const Checkpoint& checkpoint,
                            const std::string& folder) {
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        PrintablePath(folder), ": cannot be made: ", error.message()));
  }
  for (const char* name : {kJsonName, kTableName}) {
    const absl::Status status = CreateReport(checkpoint, folder, name).status();
    if (status.ok()) continue;
    if (is_new) std::filesystem::remove(folder, error);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunBench(const Flags& flags, Console& console) {
  if (flags.bench.single_run) return RunMeasured(flags, console);
  // A model that cannot be opened is one error, not one a run.
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(flags.global.model_path));
  const std::string& folder = flags.bench.out_folder;
  if (!folder.empty()) {
    LOWMEM_RETURN_IF_ERROR(PrepareReports(*checkpoint, folder));
  }
  std::vector<BenchRun> runs = PlannedRuns(flags.bench);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (isatty(STDERR_FILENO) == 1) {
      console.Note(absl::StrCat("run ", i + 1, " of ", runs.size(), ": ",
                                ModeName(runs[i].mode), "\n"));
    }
    // Under a limit too: pages that an earlier run left are charged to nobody,
    // and a run that maps them would hold more than its limit.
    if (flags.bench.cold || runs[i].ram_budget_bytes.has_value()) {
      ForgetCachedPages(*checkpoint);
    }
    LOWMEM_RETURN_IF_ERROR(MeasureRun(flags, runs[i]));
  }
  const std::string table = BenchTable(runs);
  const std::string json = BenchJson(runs);
  if (!folder.empty()) {
    LOWMEM_RETURN_IF_ERROR(WriteReport(*checkpoint, folder, kJsonName, json));
    LOWMEM_RETURN_IF_ERROR(WriteReport(*checkpoint, folder, kTableName, table));
  }
  LOWMEM_RETURN_IF_ERROR(console.Write(flags.global.json ? json : table));
  // Every run has had its turn; the first that failed decides how this ends.
  for (const BenchRun& run : runs) LOWMEM_RETURN_IF_ERROR(run.status);
  return absl::OkStatus();
}

}  // namespace lowmem::cli
