// SPDX-License-Identifier: Apache-2.0
// What a tensor is for, and what a checkpoint calls it. Patterns are part of
// the table of families.

#ifndef LOWMEM_ENGINE_MODEL_TENSOR_NAMES_H_
#define LOWMEM_ENGINE_MODEL_TENSOR_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lowmem {

enum class TensorRole : uint8_t {
  kEmbedding,
  kFinalNorm,
  kHead,
  kRopeDivisors,
  // Once a layer:
  kAttentionNorm,
  kQProj,
  kQBias,
  kKProj,
  kKBias,
  kVProj,
  kVBias,
  kOProj,
  kOBias,
  kFeedForwardNorm,
  kGateProj,
  kGateBias,
  kUpProj,
  kUpBias,
  kDownProj,
  kDownBias,
};

// '#' in the pattern stands for the index of the layer.
struct TensorPattern {
  TensorRole role;
  absl::string_view pattern;
};

// The name of a role's tensor; `layer_idx` is not used for roles outside the
// layers. Empty when the family has no such tensor.
std::string TensorName(absl::Span<const TensorPattern> patterns,
                       TensorRole role, uint32_t layer_idx = 0);

// The index that `name` has where a layer pattern has '#', whatever follows it:
// "blk.7.anything" is of layer 7. nullopt for a name of no layer, or with an
// index beyond 32 bits.
std::optional<uint32_t> LayerOfName(absl::Span<const TensorPattern> patterns,
                                    absl::string_view name);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_TENSOR_NAMES_H_
