// SPDX-License-Identifier: Apache-2.0
// From the options of the command line to an open model.

#ifndef LOWMEM_ENGINE_CLI_OPEN_ENGINE_H_
#define LOWMEM_ENGINE_CLI_OPEN_ENGINE_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/cli/console.h"
#include "engine/cli/flags.h"
#include "engine/cli/progress.h"
#include "lowmem/engine.h"

namespace lowmem::cli {

struct EngineLimits {
  uint32_t max_context_tokens = 0;    // 0: the model's
  uint32_t prefill_chunk_tokens = 0;  // 0: chosen
  // Of the text that sequence_need has tokenized, and is gone afterwards.
  uint64_t text_bytes = 0;
  bool text_exceeds_context = false;
  std::function<absl::StatusOr<SequenceNeed>(TokenizeFunction)> sequence_need;
  bool scores_every_token = false;
};

// The options of an engine, what the command line itself takes counted where it
// is long, with `progress` shown while weights are copied and
// an end to it on a signal. `progress` must outlive the opening.
EngineOptions EngineOptionsOf(const GlobalFlags& flags,
                              const EngineLimits& limits, Progress& progress);

// Opens flags.model_path, with a progress bar while weights are copied. A
// signal ends it. Errors: those of Engine::Open; kCancelled after a signal.
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const GlobalFlags& flags,
                                                   const EngineLimits& limits,
                                                   const Console& console);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_OPEN_ENGINE_H_
