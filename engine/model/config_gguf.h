// SPDX-License-Identifier: Apache-2.0
// GGUF metadata, as llama.cpp's converter writes it, turned into a ModelConfig.
// The format leaves some things to the tensors: their presence says whether
// there are biases, an own head and frequency divisors, and the rows of the
// embedding are the vocabulary.

#ifndef LOWMEM_ENGINE_MODEL_CONFIG_GGUF_H_
#define LOWMEM_ENGINE_MODEL_CONFIG_GGUF_H_

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "storage/checkpoint.h"

namespace lowmem {

// The result is not yet proved by ValidateConfig.
// REQUIRES: checkpoint.format() == kGguf.
// Errors: kDataLoss, kUnimplemented as ReadModelConfig; kUnavailable.
absl::StatusOr<ModelConfig> ReadConfigGguf(const Checkpoint& checkpoint);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_CONFIG_GGUF_H_
