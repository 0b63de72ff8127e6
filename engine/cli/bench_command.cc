// SPDX-License-Identifier: Apache-2.0
// lowmem-run bench: each mode under each budget, each in a process of its own,
// since peaks never fall and a warm allocator hides what loading costs.
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/cli/bench_table.h"
#include "engine/cli/child_process.h"
#include "engine/cli/command.h"
#include "engine/cli/open_engine.h"
#include "engine/cli/signals.h"
#include "engine/cli/stats.h"
#include "storage/base/json_writer.h"
#include "storage/base/status_macros.h"
#include "storage/checkpoint.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "storage/model_files.h"

namespace lowmem::cli {
namespace {

// Ordinary tokens, the same in every run: what they say does not matter to time
// or memory.
std::vector<int32_t> PromptIds(uint32_t num_tokens, uint32_t vocab_size) {
  constexpr uint32_t kFirst = 100;  // special tokens often come first
  constexpr uint32_t kStep = 7919;
  std::vector<int32_t> ids;
  for (uint32_t i = 0; i < num_tokens; ++i) {
    const uint64_t id = kFirst + uint64_t{i} * kStep % 20'000;
    ids.push_back(static_cast<int32_t>(id % vocab_size));
  }
  return ids;
}

// What one child process does: the meter of one generation to stdout.
absl::Status RunOnce(const Flags& flags, Console& console) {
  const BenchFlags& bench = flags.bench;
  const EngineLimits limits = {
      .max_context_tokens = bench.num_prompt_tokens + bench.num_new_tokens,
      .sequence_need = [&bench](TokenizeFunction) {
        return SequenceNeed{.prompt_tokens = bench.num_prompt_tokens};
      }};
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                          OpenEngine(flags.global, limits, console));
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          engine->NewSession());
  LOWMEM_RETURN_IF_ERROR(session->AppendIds(
      PromptIds(bench.num_prompt_tokens, engine->vocab_size())));
  GenerateOptions options;
  options.max_new_tokens = bench.num_new_tokens;
  options.ignore_eos = true;
  options.sampling.temperature = 0;
  const CancelOnSignal cancel_on_signal(*session);
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  LOWMEM_ASSIGN_OR_RETURN(const GenerateResult result,
                          session->Generate(options, [](absl::string_view) {
                            return !Interrupted();
                          }));
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  JsonWriter json;
  AppendMeter(result.meter, json);
  return console.Write(absl::StrCat(json.text(), "\n"));
}

std::vector<std::string> ChildArgs(const Flags& flags, const BenchRun& run) {
  std::vector<std::string> args = {"-q", "-m", flags.global.model_path,
                                   "--mode", std::string(ModeName(run.mode))};
  if (run.ram_budget_bytes.has_value()) {
    args.insert(args.end(),
                {"--ram-budget", absl::StrCat(*run.ram_budget_bytes)});
  }
  if (flags.global.num_threads != 0) {
    args.insert(args.end(), {"-t", absl::StrCat(flags.global.num_threads)});
  }
  args.insert(args.end(), {"bench", "--single-run", "-p",
                           absl::StrCat(flags.bench.num_prompt_tokens), "-n",
                           absl::StrCat(flags.bench.num_new_tokens)});
  return args;
}

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
        runs.push_back({mode, budget, absl::OkStatus(), JsonValue()});
      }
    }
  }
  return runs;
}

// Fills in the result of `run`. A refused run is a result too.
absl::Status Measure(const Flags& flags, const Checkpoint& checkpoint,
                     BenchRun& run) {
  if (flags.bench.cold) ForgetCachedPages(checkpoint);
  const absl::StatusOr<std::string> out = RunSelf(ChildArgs(flags, run));
  LOWMEM_RETURN_IF_ERROR(CheckInterrupted());
  run.status = out.status();
  if (!run.status.ok()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(run.meter, JsonValue::Parse(*out));
  return absl::OkStatus();
}

absl::Status WriteReport(const Checkpoint& checkpoint,
                         const std::string& folder, absl::string_view name,
                         absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat(
        PrintablePath(folder), ": cannot be made: ", error.message()));
  }
  const std::string path = JoinPath(folder, name);
  LOWMEM_RETURN_IF_ERROR(CheckSparesModel(checkpoint, path));
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  LOWMEM_RETURN_IF_ERROR(file->Append(text));
  return file->Commit();
}

}  // namespace

absl::Status RunBench(const Flags& flags, Console& console) {
  if (flags.bench.single_run) return RunOnce(flags, console);
  // A model that cannot be opened is one error, not one a run.
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(flags.global.model_path));
  std::vector<BenchRun> runs = PlannedRuns(flags.bench);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (isatty(STDERR_FILENO) == 1) {
      console.Note(absl::StrCat("run ", i + 1, " of ", runs.size(), ": ",
                                ModeName(runs[i].mode), "\n"));
    }
    LOWMEM_RETURN_IF_ERROR(Measure(flags, *checkpoint, runs[i]));
  }
  const std::string table = BenchTable(runs);
  const std::string json = BenchJson(runs);
  if (!flags.bench.out_folder.empty()) {
    const std::string& folder = flags.bench.out_folder;
    LOWMEM_RETURN_IF_ERROR(
        WriteReport(*checkpoint, folder, "bench.json", json));
    LOWMEM_RETURN_IF_ERROR(
        WriteReport(*checkpoint, folder, "bench.txt", table));
  }
  LOWMEM_RETURN_IF_ERROR(console.Write(flags.global.json ? json : table));
  // Every run has had its turn; the first that failed decides how this ends.
  for (const BenchRun& run : runs) LOWMEM_RETURN_IF_ERROR(run.status);
  return absl::OkStatus();
}

}  // namespace lowmem::cli
