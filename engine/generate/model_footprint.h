// SPDX-License-Identifier: Apache-2.0
// The sizes of one opened checkpoint that a forecast starts from. Reads no
// weight.

#ifndef LOWMEM_ENGINE_GENERATE_MODEL_FOOTPRINT_H_
#define LOWMEM_ENGINE_GENERATE_MODEL_FOOTPRINT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/cache/kv_cache.h"
#include "engine/generate/memory_forecast.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/nn/transformer.h"
#include "storage/checkpoint.h"

namespace lowmem {

// Errors: kResourceExhausted when a size does not fit 63 bits.
absl::StatusOr<ModelFootprint> MeasureFootprint(
    const Checkpoint& checkpoint, const ModelConfig& config,
    const ModelWeights& weights, const TransformerOptions& options,
    uint32_t num_threads);

// Bytes of the tensors that the model uses, each once.
uint64_t UsedWeightBytes(const Checkpoint& checkpoint,
                         const ModelWeights& weights);

KvShape KvShapeOf(const ModelConfig& config);

// What the tokenizer will hold: its text, and 16 bytes a token and a merge. 0
// when the checkpoint has none.
uint64_t EstimateTokenizerBytes(const Checkpoint& checkpoint);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODEL_FOOTPRINT_H_
