// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_summary.h"

#include <utility>

#include "engine/generate/mode_choice.h"
#include "engine/generate/model_footprint.h"
#include "engine/generate/posix_processors.h"
#include "engine/model/family.h"
#include "engine/model/model_weights.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// REQUIRES: the mode is kMmap or kCopy.
absl::StatusOr<ModeSummary> SummarizeMode(const ModeRequest& request,
                                          FootprintFunction footprint_of) {
  ModeSummary summary;
  LOWMEM_ASSIGN_OR_RETURN(
      summary.smallest, ForecastSmallest(request.mode, request, footprint_of));
  ModeRequest unlimited = request;
  unlimited.budget_bytes.reset();
  LOWMEM_ASSIGN_OR_RETURN(const ModeChoice full,
                          ChooseMode(unlimited, footprint_of));
  summary.full = full.forecast;
  const absl::StatusOr<ModeChoice> choice = ChooseMode(request, footprint_of);
  if (choice.ok()) {
    summary.planned = choice->forecast;
  } else if (!absl::IsResourceExhausted(choice.status())) {
    return choice.status();
  }
  return summary;
}

}  // namespace

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

  const uint32_t num_threads =
      options.num_threads != 0 ? options.num_threads : AvailableProcessors();
  const ModelFootprint model =
      MeasureModel(checkpoint, summary.config, weights);
  const auto footprint_of = [&](uint32_t chunk_tokens,
                                uint32_t context_tokens) {
    return AddActivations(model, summary.config, chunk_tokens, context_tokens,
                          num_threads);
  };
  for (const Mode mode : {Mode::kMmap, Mode::kCopy}) {
    ModeRequest request =
        ModeRequestOf(options, summary.config.max_context_tokens);
    request.mode = mode;
    LOWMEM_ASSIGN_OR_RETURN(ModeSummary of_mode,
                            SummarizeMode(request, footprint_of));
    summary.modes.push_back(std::move(of_mode));
  }
  summary.min_budget_bytes = summary.modes[0].smallest.required_bytes();
  return summary;
}

}  // namespace lowmem
