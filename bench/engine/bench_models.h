// SPDX-License-Identifier: Apache-2.0
// The models that the benchmarks of whole models run: a tiny one that is always
// there, published ones where they were fetched or converted, and those that
// compare_llama_cpp made.

#ifndef LOWMEM_BENCH_ENGINE_BENCH_MODELS_H_
#define LOWMEM_BENCH_ENGINE_BENCH_MODELS_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "engine/generate/posix_processors.h"
#include "lowmem/engine.h"

namespace lowmem::bench {

struct BenchModel {
  std::string name;
  std::string path;
  int32_t num_ids = 0;  // ids below it stand for tokens
};

inline std::vector<BenchModel> BenchModels() {
  const std::string root = LOWMEM_SOURCE_DIR;
  std::vector<BenchModel> models = {
      {"tiny", root + "/tests/testdata/tiny/llama", 300}};
  const BenchModel published[] = {
      {"smollm2-bf16", root + "/models/smollm2-bf16", 40000},
      {"smollm2-q4_1", root + "/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
       40000},
      {"smollm2-q8_0", root + "/build/llama.cpp/models/smollm2-q8_0.gguf",
       40000},
      {"qwen-bf16", root + "/models/qwen2.5-coder-0.5b-bf16", 100000},
      {"qwen-q4_k_m",
       root + "/models/qwen2.5-coder-0.5b/"
              "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
       100000},
  };
  for (const BenchModel& model : published) {
    if (std::filesystem::exists(model.path)) models.push_back(model);
  }
  return models;
}

struct BenchRun {
  BenchModel model;
  Mode mode = Mode::kMmap;
  uint32_t num_threads = 0;
};

inline EngineOptions OptionsFor(const BenchRun& run) {
  EngineOptions options;
  options.model_path = run.model.path;
  options.mode = run.mode;
  options.num_threads = run.num_threads;
  options.max_context_tokens = 1024;
  return options;
}

// Different ids, the same in every run.
inline std::vector<int32_t> PromptIds(const BenchModel& model,
                                      size_t num_tokens) {
  std::vector<int32_t> ids(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) {
    ids[i] = static_cast<int32_t>((i * 7919 + 11) % model.num_ids);
  }
  return ids;
}

// Registers `run`(state, BenchRun) as "<name>/<model>/<mode>/threads:<n>" for
// every model and mode, with one thread and with all processors.
template <typename Run>
bool RegisterForModels(const char* name, benchmark::TimeUnit unit, Run run) {
  const std::set<uint32_t> thread_counts = {1, AvailableProcessors()};
  for (const BenchModel& model : BenchModels()) {
    for (const Mode mode : {Mode::kMmap, Mode::kCopy}) {
      for (const uint32_t num_threads : thread_counts) {
        const std::string full_name = std::string(name) + "/" + model.name +
                                      "/" + std::string(ModeName(mode)) +
                                      "/threads:" + std::to_string(num_threads);
        const BenchRun bench_run{model, mode, num_threads};
        benchmark::RegisterBenchmark(
            full_name.c_str(),
            [=](benchmark::State& state) { run(state, bench_run); })
            ->Unit(unit)
            ->UseRealTime();
      }
    }
  }
  return true;
}

// An engine with a session that holds a prompt; nullptr, with the benchmark
// ended, when that fails.
struct BenchSession {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

inline std::unique_ptr<BenchSession> OpenOrSkip(benchmark::State& state,
                                                const BenchRun& run,
                                                size_t num_prompt_tokens) {
  auto opened = std::make_unique<BenchSession>();
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Open(OptionsFor(run));
  if (!engine.ok()) {
    state.SkipWithError(engine.status().ToString().c_str());
    return nullptr;
  }
  opened->engine = *std::move(engine);
  absl::StatusOr<std::unique_ptr<Session>> session =
      opened->engine->NewSession();
  if (session.ok()) {
    opened->session = *std::move(session);
    const absl::Status status =
        opened->session->AppendIds(PromptIds(run.model, num_prompt_tokens));
    if (status.ok()) return opened;
  }
  state.SkipWithError("no session");
  return nullptr;
}

}  // namespace lowmem::bench

#endif  // LOWMEM_BENCH_ENGINE_BENCH_MODELS_H_
