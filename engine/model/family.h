// SPDX-License-Identifier: Apache-2.0
// Model families as data. A row says how a family names itself and its tensors
// and which switches its configuration may set; the code that runs a model
// never asks for a family by name. A new family is a new row, and a new switch
// only where it computes something that no other family does.

#ifndef LOWMEM_ENGINE_MODEL_FAMILY_H_
#define LOWMEM_ENGINE_MODEL_FAMILY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/tensor_names.h"

namespace lowmem {

// Whether a projection has a bias, as config.json tells. GGUF has no key for
// it: there the tensor is present or not.
enum class BiasRule : uint8_t {
  kNever,
  kAlways,
  kByKey,  // `attention_bias` or `mlp_bias`; false when absent
};

// What makes config.json ask for windowed attention.
enum class WindowRule : uint8_t {
  kNone,        // the family knows none
  kUnlessNull,  // `sliding_window` unless it is null; absent means a default
                // size
  kIfUsed,      // `sliding_window` only when `use_sliding_window` is true
};

struct FamilySpec {
  absl::string_view name;
  // config.json: `architectures`[0] and `model_type`.
  absl::string_view architecture;
  absl::string_view model_type;
  // GGUF's `general.architecture`; empty where that format has no name of its
  // own.
  absl::string_view gguf_architecture;

  absl::Span<const TensorPattern> hugging_face_tensors;
  absl::Span<const TensorPattern> gguf_tensors;

  // The head is the embedding when `tie_word_embeddings` is absent.
  bool tied_by_default = false;
  BiasRule qkv_bias = BiasRule::kNever;
  BiasRule attention_out_bias = BiasRule::kNever;
  BiasRule mlp_bias = BiasRule::kNever;
  WindowRule window = WindowRule::kNone;
  // The converter to GGUF permutes rows of q and k so that rope pairs are
  // neighbours.
  bool gguf_neighbour_pairs = false;
};

absl::Span<const FamilySpec> Families();

// nullptr when there is none of that name.
const FamilySpec* FamilyByArchitecture(absl::string_view architecture);
const FamilySpec* FamilyByModelType(absl::string_view model_type);
const FamilySpec* FamilyByGgufArchitecture(absl::string_view architecture);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_FAMILY_H_
