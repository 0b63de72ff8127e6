// SPDX-License-Identifier: Apache-2.0
// The tensors of a model by their role, found in a checkpoint and proved to
// have the shapes that the configuration asks for.

#ifndef LOWMEM_ENGINE_MODEL_MODEL_WEIGHTS_H_
#define LOWMEM_ENGINE_MODEL_MODEL_WEIGHTS_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "storage/checkpoint.h"
#include "storage/weight_source.h"

namespace lowmem {

// Shapes as [rows, cols]; a bias or norm is a vector. Absent where the
// configuration has no such tensor.
struct LayerTensors {
  TensorId attention_norm;          // [dim]
  TensorId q_proj, k_proj, v_proj;  // [q_dim, dim], [kv_dim, dim] twice
  std::optional<TensorId> q_bias, k_bias, v_bias;
  TensorId o_proj;  // [dim, q_dim]
  std::optional<TensorId> o_bias;
  TensorId feed_forward_norm;   // [dim]
  TensorId gate_proj, up_proj;  // [ff_dim, dim]
  std::optional<TensorId> gate_bias, up_bias;
  TensorId down_proj;  // [dim, ff_dim]
  std::optional<TensorId> down_bias;
};

struct ModelWeights {
  TensorId embedding;  // [vocab_size, dim]
  std::vector<LayerTensors> layers;
  TensorId final_norm;  // [dim]
  TensorId head;        // [vocab_size, dim]; the embedding itself when tied

  // One step a layer, in order of use, then one for the final norm and head.
  std::vector<WeightStep> Steps() const;
  // Every tensor that is used, once, in file order.
  std::vector<TensorId> UsedTensors(const Checkpoint& checkpoint) const;
};

// Tensors that no role names (rotary inv_freq, masks) are not looked at.
// Errors: kDataLoss when a tensor is absent (the first, and how many), has
// another shape than the configuration says, or is there although the
// configuration has no use for it (a bias, a layer beyond the last);
// kUnimplemented when its dtype cannot be decoded.
absl::StatusOr<ModelWeights> ResolveWeights(const ModelConfig& config,
                                            const Checkpoint& checkpoint);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_MODEL_WEIGHTS_H_
