// SPDX-License-Identifier: Apache-2.0
// What a model is and what it will cost, read from headers alone: the substance
// of `info`.

#ifndef LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_
#define LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/generate/memory_forecast.h"
#include "engine/generate/mode_choice.h"
#include "engine/model/model_config.h"
#include "lowmem/options.h"
#include "storage/checkpoint.h"
#include "storage/residency_plan.h"
#include "storage/stream_ring.h"

namespace lowmem {

// What Engine::Open would need and take in one mode.
struct ModeSummary {
  // The least budget with which Open accepts the options, and what a whole
  // context takes.
  MemoryForecast smallest;
  MemoryForecast full;
  // What Open would take under the budget; nullopt when it would refuse.
  std::optional<ModeChoice> planned;
  // The longest context that the budget has room for, whatever length was asked
  // for; 0 when there is none.
  uint32_t longest_context_tokens = 0;
};

// Where weights live, and what of memory that takes.
struct WeightPlacement {
  ResidencyPlan rows;
  uint64_t resident_bytes = 0;  // with alignment, or in whole pages
  uint64_t buffer_bytes = 0;    // what the others flow through
  // How they are read in kStream.
  std::optional<StreamRingShape> ring;
};

struct ModelSummary {
  // The tensor table: checkpoint->tensors(), and checkpoint->files() by
  // file_idx.
  std::unique_ptr<Checkpoint> checkpoint;
  ModelConfig config;
  std::string family;
  uint64_t num_parameters = 0;     // elements of the tensors that are used
  uint64_t model_bytes = 0;        // of the tensors that are used
  std::vector<ModeSummary> modes;  // mmap, copy, stream
  // What Open would take for the options as they are, or its refusal.
  absl::StatusOr<ModeChoice> choice;
  // Where the weights are then; nullopt when the kernel decides that.
  std::optional<WeightPlacement> placement;
  // The smallest budget that Engine::Open accepts for the same options and
  // Mode::kAuto.
  uint64_t min_budget_bytes = std::numeric_limits<uint64_t>::max();
};

// Uses of the options the path, mode, threads, context, chunk and budget. Reads
// no weight and no tokenizer. Errors: those of Engine::Open up to the choice of
// mode, but no refusal of a budget.
absl::StatusOr<ModelSummary> SummarizeModel(const EngineOptions& options);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_
