// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_summary.h"

#include <algorithm>
#include <utility>

#include "engine/generate/mode_choice.h"
#include "engine/generate/model_footprint.h"
#include "engine/generate/posix_processors.h"
#include "engine/model/family.h"
#include "engine/model/model_weights.h"
#include "storage/base/status_macros.h"

namespace lowmem {

absl::StatusOr<ModelSummary> SummarizeModel(const EngineOptions& options) {
  ModelSummary summary;
  LOWMEM_ASSIGN_OR_RETURN(summary.checkpoint,
                          Checkpoint::Open(options.model_path));
  const Checkpoint& checkpoint = *summary.checkpoint;
  LOWMEM_ASSIGN_OR_RETURN(summary.config, ReadModelConfig(checkpoint));
  LOWMEM_ASSIGN_OR_RETURN(const ModelWeights weights,
                          ResolveWeights(summary.config, checkpoint));
  summary.family = std::string(summary.config.family->name);
  summary.model_bytes = UsedWeightBytes(checkpoint, weights);
  for (TensorId id : weights.UsedTensors(checkpoint)) {
    const TensorInfo& tensor = checkpoint.tensors()[id];
    summary.num_parameters += tensor.num_rows() * tensor.num_cols();
  }

  uint32_t context_tokens = summary.config.max_context_tokens;
  if (options.max_context_tokens != 0) {
    context_tokens = std::min(context_tokens, options.max_context_tokens);
  }
  summary.num_threads =
      options.num_threads != 0 ? options.num_threads : AvailableProcessors();
  const auto footprint_of_chunk = [&](uint32_t chunk_tokens) {
    return MeasureFootprint(
        checkpoint, summary.config, weights,
        TransformerOptions{std::min(chunk_tokens, context_tokens),
                           context_tokens},
        summary.num_threads);
  };
  for (Mode mode : {Mode::kMmap, Mode::kCopy}) {
    LOWMEM_ASSIGN_OR_RETURN(
        const ModeChoice choice,
        ChooseMode(mode, std::nullopt, options.prefill_chunk_tokens,
                   footprint_of_chunk));
    summary.prefill_chunk_tokens =
        std::min(choice.chunk_tokens, context_tokens);
    summary.forecasts.push_back(choice.forecast);
  }
  const uint32_t smallest_chunk =
      options.prefill_chunk_tokens != 0 ? options.prefill_chunk_tokens : 1;
  LOWMEM_ASSIGN_OR_RETURN(const ModelFootprint smallest,
                          footprint_of_chunk(smallest_chunk));
  summary.min_budget_bytes =
      ForecastMemory(Mode::kMmap, smallest).min_required_bytes();
  return summary;
}

}  // namespace lowmem
