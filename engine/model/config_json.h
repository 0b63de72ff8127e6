// SPDX-License-Identifier: Apache-2.0
// config.json, as transformers 4 and 5 write it, turned into a ModelConfig.
// Keys that say how to train, and `dtype` or `torch_dtype` (the tensor table
// tells the truth), are not read.

#ifndef LOWMEM_ENGINE_MODEL_CONFIG_JSON_H_
#define LOWMEM_ENGINE_MODEL_CONFIG_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model_config.h"

namespace lowmem {

// `path` is only for messages. The result is not yet proved by ValidateConfig.
// Errors: kDataLoss, kUnimplemented as ReadModelConfig.
absl::StatusOr<ModelConfig> ParseConfigJson(absl::string_view text,
                                            const std::string& path);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_CONFIG_JSON_H_
