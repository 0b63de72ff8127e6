// SPDX-License-Identifier: Apache-2.0
// A model as numbers and switches, independent of the format it was published
// in. Filled from config.json or from GGUF metadata, then proved by Validate.

#ifndef LOWMEM_ENGINE_MODEL_MODEL_CONFIG_H_
#define LOWMEM_ENGINE_MODEL_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint.h"

namespace lowmem {

struct FamilySpec;

enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3 };

struct RopeConfig {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;                            // linear, llama3
  double low_freq_factor = 1.0;                   // llama3
  double high_freq_factor = 4.0;                  // llama3
  uint32_t original_max_position_embeddings = 0;  // llama3
  // GGUF's rope_freqs.weight: each frequency is divided by its entry. Empty
  // where there is none, else num_pairs values.
  std::vector<float> frequency_divisors;
  // Which elements of a head form a pair: i and i + dim/2, or 2i and 2i + 1.
  bool neighbour_pairs = false;
};

// What differs between families beyond the tensor names.
struct ModelConfig {
  const FamilySpec* family = nullptr;  // never null once read
  uint32_t num_layers = 0;
  uint32_t dim = 0;
  uint32_t ff_dim = 0;
  uint32_t num_heads = 0;
  uint32_t num_kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t vocab_size = 0;  // rows of the embedding; may exceed the tokenizer's
  uint32_t max_context_tokens = 0;
  float norm_epsilon = 1e-5f;
  bool tied_head = false;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  RopeConfig rope;
  int64_t bos_id = -1;           // -1: none
  std::vector<int32_t> eos_ids;  // of config.json or GGUF metadata only

  uint32_t q_dim() const { return num_heads * head_dim; }
  uint32_t kv_dim() const { return num_kv_heads * head_dim; }
};

// Reads config.json beside a safetensors checkpoint, or GGUF metadata.
// Errors: kNotFound when config.json is absent; kDataLoss when a value is
// absent, malformed, out of limits or contradicts another; kUnimplemented for
// an architecture or feature that is not supported, named in the message.
absl::StatusOr<ModelConfig> ReadModelConfig(const Checkpoint& checkpoint);

// Proves what no single value tells: the relations between them, and the limits
// of what they multiply to. `path` is only for the message. Errors: kDataLoss.
absl::Status ValidateConfig(const ModelConfig& config, absl::string_view path);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_MODEL_CONFIG_H_
