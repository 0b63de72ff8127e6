// SPDX-License-Identifier: Apache-2.0
// What a model is and what it will cost, read from headers alone: the substance
// of `info`.

#ifndef LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_
#define LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/generate/memory_forecast.h"
#include "engine/model/model_config.h"
#include "lowmem/options.h"
#include "storage/checkpoint.h"

namespace lowmem {

struct ModelSummary {
  // The tensor table: checkpoint->tensors(), and checkpoint->files() by
  // file_idx.
  std::unique_ptr<Checkpoint> checkpoint;
  ModelConfig config;
  std::string family;
  uint64_t num_parameters = 0;  // elements of the tensors that are used
  uint64_t model_bytes = 0;     // of the tensors that are used
  std::vector<MemoryForecast> forecasts;  // mmap, copy
  uint32_t prefill_chunk_tokens = 0;      // that the forecasts are for
  uint32_t num_threads = 0;
  // The smallest budget that Engine::Open accepts for the same options.
  uint64_t min_budget_bytes = 0;
};

// Uses of the options the path, threads, context and chunk; mode and budget do
// not matter. Reads no weight and no tokenizer. Errors: those of Engine::Open
// up to the choice of mode.
absl::StatusOr<ModelSummary> SummarizeModel(const EngineOptions& options);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODEL_SUMMARY_H_
