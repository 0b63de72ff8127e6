// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/open_engine.h"

#include "engine/cli/signals.h"

namespace lowmem::cli {

EngineOptions EngineOptionsOf(const GlobalFlags& flags,
                              const EngineLimits& limits, Progress& progress) {
  EngineOptions options;
  options.model_path = flags.model_path;
  options.mode = flags.mode;
  options.kv_dtype = flags.kv_dtype;
  options.num_threads = flags.num_threads;
  options.ram_budget_bytes = flags.ram_budget_bytes;
  options.max_context_tokens = limits.max_context_tokens;
  options.prefill_chunk_tokens = limits.prefill_chunk_tokens;
  options.sequence_need = limits.sequence_need;
  options.scores_every_token = limits.scores_every_token;
  options.io = flags.io;
  options.cancel = &InterruptedFlag();
  options.on_load_progress = [&progress](const LoadProgress& load) {
    progress.Update(load.done_bytes, load.total_bytes);
    return CheckInterrupted();
  };
  return options;
}

absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const GlobalFlags& flags,
                                                   const EngineLimits& limits,
                                                   const Console& console) {
  Progress progress(kCopyingWeights, console.quiet());
  return Engine::Open(EngineOptionsOf(flags, limits, progress));
}

}  // namespace lowmem::cli
