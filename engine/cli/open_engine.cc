// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/open_engine.h"

#include <utility>

#include "engine/cli/signals.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

// Prompt, ids and stop texts stand in the arguments, in the parser's results,
// in the flags and in what a command makes of them.
constexpr uint64_t kCopiesOfArguments = 6;
// The program's estimate has room for so much.
constexpr uint64_t kFreeArgumentBytes = 4 * kKiB;

uint64_t HeldArgumentBytes(const GlobalFlags& flags) {
  return flags.argument_bytes <= kFreeArgumentBytes
             ? 0
             : kCopiesOfArguments * flags.argument_bytes;
}

}  // namespace

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
  const uint64_t args_bytes = HeldArgumentBytes(flags);
  options.caller_text_bytes = limits.text_bytes + args_bytes;
  options.text_exceeds_context = limits.text_exceeds_context;
  if (limits.sequence_need) {
    options.sequence_need =
        [need_of = limits.sequence_need, args_bytes](
            TokenizeFunction tokenize) -> absl::StatusOr<SequenceNeed> {
      LOWMEM_ASSIGN_OR_RETURN(SequenceNeed need, need_of(tokenize));
      need.caller_bytes += args_bytes;
      return need;
    };
  }
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
