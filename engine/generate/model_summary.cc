// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_summary.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "engine/generate/mode_choice.h"
#include "engine/generate/model_footprint.h"
#include "engine/generate/posix_processors.h"
#include "engine/generate/stream_plan.h"
#include "engine/model/family.h"
#include "engine/model/model_weights.h"
#include "storage/base/status_macros.h"
#include "storage/mapped_plan.h"

namespace lowmem {
namespace {

// The checkpoint's sizes, and what one run of it would ask for.
struct Sizes {
  const ModelFootprint& model;
  const ModelConfig& config;
  uint32_t num_threads;

  auto FunctionFor(const EngineOptions& options) const {
    return [this, &options](uint32_t chunk_tokens, uint32_t context_tokens) {
      return AddActivations(
          model, config,
          TransformerOptionsOf(options, chunk_tokens, context_tokens),
          num_threads);
    };
  }
};

// REQUIRES: the mode of the options is not kAuto.
absl::StatusOr<ModeSummary> SummarizeMode(const EngineOptions& options,
                                          const Sizes& sizes) {
  ModeSummary summary;
  const ModeRequest request =
      ModeRequestOf(options, sizes.config.max_context_tokens);
  // The least budget is that of a run which has one.
  EngineOptions limited = options;
  limited.ram_budget_bytes = std::numeric_limits<uint64_t>::max();
  LOWMEM_ASSIGN_OR_RETURN(
      summary.smallest,
      ForecastSmallest(options.mode, request, sizes.FunctionFor(limited)));
  ModeRequest unlimited = request;
  unlimited.budget_bytes.reset();
  LOWMEM_ASSIGN_OR_RETURN(const ModeChoice full,
                          ChooseMode(unlimited, sizes.FunctionFor(options)));
  summary.full = full.forecast;
  const absl::StatusOr<ModeChoice> choice =
      ChooseMode(request, sizes.FunctionFor(options));
  if (choice.ok()) {
    summary.planned = *choice;
    summary.longest_context_tokens = choice->longest_context_tokens;
    return summary;
  }
  if (!absl::IsResourceExhausted(choice.status())) return choice.status();
  EngineOptions any_context = options;
  any_context.max_context_tokens = 0;
  const absl::StatusOr<ModeChoice> shorter =
      ChooseMode(ModeRequestOf(any_context, sizes.config.max_context_tokens),
                 sizes.FunctionFor(any_context));
  if (shorter.ok()) {
    summary.longest_context_tokens = shorter->longest_context_tokens;
  }
  return summary;
}

absl::StatusOr<std::optional<WeightPlacement>> PlaceWeights(
    const Checkpoint& checkpoint, const ModelWeights& weights,
    const ModeChoice& choice) {
  if (choice.mode == Mode::kMmap) {
    if (!choice.weight_bytes) return std::nullopt;
    LOWMEM_ASSIGN_OR_RETURN(
        MappedPlan plan,
        PlanMapped(checkpoint, DescribeModel(checkpoint, weights),
                   *choice.weight_bytes));
    const MappedFootprint& footprint = plan.footprint;
    return WeightPlacement{std::move(plan.residency), footprint.resident_bytes,
                           footprint.total_bytes() - footprint.resident_bytes,
                           std::nullopt};
  }
  LOWMEM_ASSIGN_OR_RETURN(
      StreamPlan plan,
      choice.mode == Mode::kCopy
          ? PlanAllResident(checkpoint, weights)
          : PlanStream(checkpoint, weights, choice.weight_bytes));
  const uint64_t resident_bytes = plan.residency.block_bytes;
  const uint64_t buffer_bytes = plan.residency.ring_bytes;
  WeightPlacement placement = {std::move(plan.residency), resident_bytes,
                               buffer_bytes, std::nullopt};
  if (choice.mode == Mode::kStream) placement.ring = plan.ring;
  return placement;
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
      options.num_threads != 0 ? options.num_threads : AvailableCores();
  const ModelFootprint model =
      MeasureModel(checkpoint, summary.config, weights, options.kv_dtype);
  const Sizes sizes = {model, summary.config, num_threads};
  EngineOptions of_mode = options;
  for (const Mode mode : {Mode::kMmap, Mode::kCopy, Mode::kStream}) {
    of_mode.mode = mode;
    LOWMEM_ASSIGN_OR_RETURN(ModeSummary mode_summary,
                            SummarizeMode(of_mode, sizes));
    if (mode != Mode::kMmap) {
      summary.min_budget_bytes = std::min(
          summary.min_budget_bytes, mode_summary.smallest.required_bytes());
    }
    summary.modes.push_back(std::move(mode_summary));
  }
  summary.choice =
      ChooseMode(ModeRequestOf(options, summary.config.max_context_tokens),
                 sizes.FunctionFor(options));
  if (summary.choice.ok()) {
    LOWMEM_ASSIGN_OR_RETURN(summary.placement,
                            PlaceWeights(checkpoint, weights, *summary.choice));
  }
  return summary;
}

}  // namespace lowmem
