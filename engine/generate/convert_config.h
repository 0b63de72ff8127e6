// SPDX-License-Identifier: Apache-2.0
// config.json and generation_config.json of a converted folder.

#ifndef LOWMEM_ENGINE_GENERATE_CONVERT_CONFIG_H_
#define LOWMEM_ENGINE_GENERATE_CONVERT_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/model_config.h"

namespace lowmem {

// What the metadata of a GGUF file say of the model, with the keys of the
// family's published config.json; training's keys, which GGUF does not have,
// are left to their defaults. `pad_id` is -1 where there is none. `path` is for
// messages. Errors: kUnimplemented for what the family's class in transformers
// cannot express: biases on some projections only, rope divisors of no known
// scaling.
absl::StatusOr<std::string> MakeConfigJson(const ModelConfig& config,
                                           int64_t pad_id,
                                           absl::string_view path);

// A published config.json with its dtype set to bfloat16 and all else kept.
// Errors: kDataLoss when it is no JSON object; kUnimplemented when it says that
// the weights are quantised.
absl::StatusOr<std::string> UpdateConfigJson(absl::string_view text,
                                             absl::string_view path);

// {"eos_token_id": ...}: one id, or a list of several.
// REQUIRES: `eos_ids` is not empty.
std::string MakeGenerationConfigJson(absl::Span<const int32_t> eos_ids);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_CONVERT_CONFIG_H_
