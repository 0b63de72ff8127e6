// SPDX-License-Identifier: Apache-2.0
#include "engine/model/rope_json.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// The type stands under `rope_type`, in older files under `type`.
absl::StatusOr<std::string> RopeType(const JsonFields& scaling) {
  LOWMEM_ASSIGN_OR_RETURN(std::string type,
                          scaling.OptionalString("rope_type"));
  LOWMEM_ASSIGN_OR_RETURN(std::string old_type, scaling.OptionalString("type"));
  if (!type.empty() && !old_type.empty() && type != old_type) {
    return scaling.DataLoss(
        "type",
        absl::StrCat("contradicts rope_type; expected \"", Printable(type),
                     "\", got \"", Printable(old_type), "\""));
  }
  if (type.empty()) type = std::move(old_type);
  return type.empty() ? std::string("default") : type;
}

absl::StatusOr<RopeConfig> ParseScaling(const JsonFields& scaling) {
  RopeConfig rope;
  LOWMEM_ASSIGN_OR_RETURN(const std::string type, RopeType(scaling));
  if (type == "default") return rope;
  if (type == "linear") {
    rope.scaling = RopeScaling::kLinear;
    LOWMEM_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    return rope;
  }
  if (type == "llama3") {
    rope.scaling = RopeScaling::kLlama3;
    LOWMEM_ASSIGN_OR_RETURN(rope.factor, scaling.Positive("factor"));
    LOWMEM_ASSIGN_OR_RETURN(rope.low_freq_factor,
                            scaling.Positive("low_freq_factor"));
    LOWMEM_ASSIGN_OR_RETURN(rope.high_freq_factor,
                            scaling.Positive("high_freq_factor"));
    LOWMEM_ASSIGN_OR_RETURN(rope.original_max_position_embeddings,
                            scaling.Uint32("original_max_position_embeddings",
                                           1, limits::kContextTokens));
    return rope;
  }
  return scaling.Unimplemented(
      "rope_type", absl::StrCat("no support for \"", Printable(type), "\""));
}

bool SameScaling(const RopeConfig& a, const RopeConfig& b) {
  return a.scaling == b.scaling && a.factor == b.factor &&
         a.low_freq_factor == b.low_freq_factor &&
         a.high_freq_factor == b.high_freq_factor &&
         a.original_max_position_embeddings ==
             b.original_max_position_embeddings;
}

}  // namespace

absl::StatusOr<RopeConfig> ParseRopeJson(const JsonFields& config) {
  RopeConfig rope;
  LOWMEM_ASSIGN_OR_RETURN(std::optional<double> theta,
                          config.OptionalPositive("rope_theta"));
  const bool has_scaling = config.Find("rope_scaling") != nullptr;
  if (has_scaling) {
    LOWMEM_ASSIGN_OR_RETURN(const JsonFields scaling,
                            config.Object("rope_scaling"));
    LOWMEM_ASSIGN_OR_RETURN(rope, ParseScaling(scaling));
  }
  if (config.Find("rope_parameters") != nullptr) {
    LOWMEM_ASSIGN_OR_RETURN(const JsonFields parameters,
                            config.Object("rope_parameters"));
    // Families with two kinds of layers nest one object for each.
    for (const absl::string_view kind :
         {"full_attention", "sliding_attention"}) {
      if (parameters.Find(kind) != nullptr) {
        return parameters.Unimplemented(kind,
                                        "no support for rope by layer type");
      }
    }
    LOWMEM_ASSIGN_OR_RETURN(const RopeConfig newer, ParseScaling(parameters));
    if (has_scaling && !SameScaling(rope, newer)) {
      return config.DataLoss("rope_parameters", "contradicts rope_scaling");
    }
    rope = newer;
    LOWMEM_ASSIGN_OR_RETURN(const std::optional<double> newer_theta,
                            parameters.OptionalPositive("rope_theta"));
    if (theta.has_value() && newer_theta.has_value() &&
        *theta != *newer_theta) {
      return parameters.DataLoss(
          "rope_theta",
          absl::StrCat("contradicts the outer rope_theta; expected ", *theta,
                       ", got ", *newer_theta));
    }
    if (newer_theta.has_value()) theta = newer_theta;
  }
  // Absent, transformers takes 10000.
  rope.theta = theta.value_or(10000.0);
  return rope;
}

}  // namespace lowmem
