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
#include "lowmem/options.h"
#include "storage/base/units.h"
#include "storage/checkpoint.h"

namespace lowmem {

// What a streaming lowmem-run held beside the other items at most: 6.6 MiB over
// eight models, 1 to 8 threads, on one machine, and 6.95 MiB on another, whose
// kernel maps more of the libraries at once. Code and libraries are 5.9 and 6.4
// MiB of it; the rest is stacks, tensor table and configuration.
inline constexpr uint64_t kProgramBytes = 7 * kMiB + kMiB / 8;

// What does not depend on how the model is run: all but arena_bytes,
// context_tokens, which are 0, and of text_bytes what grows with the context.
ModelFootprint MeasureModel(const Checkpoint& checkpoint,
                            const ModelConfig& config,
                            const ModelWeights& weights, KvDtype kv_dtype);

// `model` with arena_bytes, context_tokens and text_bytes filled in, for a
// transformer with these options.
// Errors: kResourceExhausted when a size does not fit 63 bits.
absl::StatusOr<ModelFootprint> AddActivations(const ModelFootprint& model,
                                              const ModelConfig& config,
                                              const TransformerOptions& options,
                                              uint32_t num_threads);

// Bytes of the tensors that the model uses, each once.
uint64_t UsedWeightBytes(const Checkpoint& checkpoint,
                         const ModelWeights& weights);

KvShape KvShapeOf(const ModelConfig& config, KvDtype kv_dtype);

// What the tokenizer will hold: no more than its tokens and merges take in the
// file, with what surrounds each there. Measured 2.9 to 3.5 MiB for 4.5 and 4.9
// in the files of Qwen2.5, 1.2 for 1.3 and 1.4 in those of SmolLM2. 0 when the
// checkpoint has none.
uint64_t EstimateTokenizerBytes(const Checkpoint& checkpoint);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_MODEL_FOOTPRINT_H_
