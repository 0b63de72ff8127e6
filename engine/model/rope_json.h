// SPDX-License-Identifier: Apache-2.0
// The rotary part of config.json.

#ifndef LOWMEM_ENGINE_MODEL_ROPE_JSON_H_
#define LOWMEM_ENGINE_MODEL_ROPE_JSON_H_

#include "absl/status/statusor.h"
#include "engine/model/json_fields.h"
#include "engine/model/model_config.h"

namespace lowmem {

// Reads `rope_theta` with `rope_scaling` (transformers 4) or `rope_parameters`
// (5). Both may be there when they say the same. Errors: kDataLoss;
// kUnimplemented for another kind of scaling, named.
absl::StatusOr<RopeConfig> ParseRopeJson(const JsonFields& config);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_ROPE_JSON_H_
