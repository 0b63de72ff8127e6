// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/model/config_gguf.h"
#include "engine/model/config_json.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"
#include "storage/file.h"

namespace lowmem {
namespace {

absl::Status ValidateRope(const RopeConfig& rope, uint32_t head_dim,
                          const std::string& where) {
  if (rope.scaling == RopeScaling::kLlama3 &&
      rope.low_freq_factor >= rope.high_freq_factor) {
    return absl::DataLossError(absl::StrCat(
        where, "high_freq_factor: expected more than low_freq_factor ",
        rope.low_freq_factor, ", got ", rope.high_freq_factor));
  }
  if (!rope.frequency_divisors.empty() &&
      rope.frequency_divisors.size() != head_dim / 2) {
    return absl::DataLossError(
        absl::StrCat(where, "rope_freqs.weight: expected ", head_dim / 2,
                     " values, got ", rope.frequency_divisors.size()));
  }
  for (const float divisor : rope.frequency_divisors) {
    if (!std::isfinite(divisor) || divisor <= 0) {
      return absl::DataLossError(absl::StrCat(
          where, "rope_freqs.weight: expected numbers above zero, got ",
          divisor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateConfig(const ModelConfig& config, absl::string_view path) {
  const std::string where = absl::StrCat(path, ": ");
  if (config.num_heads % config.num_kv_heads != 0) {
    return absl::DataLossError(absl::StrCat(
        where, "number of key-value heads: expected a divisor of the ",
        config.num_heads, " heads, got ", config.num_kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    return absl::DataLossError(absl::StrCat(
        where, "head_dim: expected an even number, got ", config.head_dim));
  }
  // 64 bits: both factors are within their own limits only.
  const uint64_t q_dim = uint64_t{config.num_heads} * config.head_dim;
  if (q_dim > limits::kDim) {
    return absl::DataLossError(
        absl::StrCat(where, "heads times head_dim: expected at most ",
                     limits::kDim, ", got ", q_dim));
  }
  if (config.bos_id >= config.vocab_size) {
    return absl::DataLossError(absl::StrCat(
        where, "bos_token_id: expected less than the vocabulary's ",
        config.vocab_size, ", got ", config.bos_id));
  }
  for (const int32_t id : config.eos_ids) {
    if (id >= 0 && static_cast<uint32_t>(id) < config.vocab_size) continue;
    return absl::DataLossError(absl::StrCat(
        where, "eos_token_id: expected less than the vocabulary's ",
        config.vocab_size, ", got ", id));
  }
  return ValidateRope(config.rope, config.head_dim, where);
}

absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint) {
  ModelConfig config;
  std::string path = checkpoint.path();
  if (checkpoint.format() == Checkpoint::Format::kGguf) {
    LOWMEM_ASSIGN_OR_RETURN(config, ReadConfigGguf(checkpoint));
  } else {
    path = checkpoint.SidecarPath("config.json");
    LOWMEM_ASSIGN_OR_RETURN(const std::string text,
                            ReadWholeFile(path, limits::kConfigJsonBytes));
    LOWMEM_ASSIGN_OR_RETURN(config, ParseConfigJson(text, path));
  }
  LOWMEM_RETURN_IF_ERROR(ValidateConfig(config, path));
  return config;
}

}  // namespace lowmem
