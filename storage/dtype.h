// SPDX-License-Identifier: Apache-2.0
// The element types of checkpoints: names, ids and sizes. How a block decodes
// is quant's business. Sources: safetensors' Dtype list; ggml's enum ggml_type
// and block structures.

#ifndef LOWMEM_STORAGE_DTYPE_H_
#define LOWMEM_STORAGE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace lowmem {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  // GGUF block types.
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ8_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ8_K,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ3_XXS,
  kIQ1_S,
  kIQ4_NL,
  kIQ3_S,
  kIQ2_S,
  kIQ4_XS,
  kIQ1_M,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kQ1_0,
  // Integers and others, stored but never computed with.
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kC64,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
  kF8_E4M3FNUZ,
  kF8_E5M2FNUZ,
  kF6_E2M3,
  kF6_E3M2,
  kF4,
};

inline constexpr size_t kNumDTypes = static_cast<size_t>(DType::kF4) + 1;

// A row is a whole number of blocks; a block is `block_elements` values in
// `block_bytes` bytes. F4 and F6 are described by the smallest whole-byte
// group.
struct DTypeTraits {
  absl::string_view name;  // as printed: "BF16", "Q4_K"
  uint32_t block_elements;
  uint32_t block_bytes;
  bool decodable;  // quant can turn a row into float32
};

const DTypeTraits& TraitsOf(DType dtype);

// By the exact name in a safetensors header, or by the id in a GGUF tensor
// table.
std::optional<DType> DTypeFromSafetensors(absl::string_view name);
std::optional<DType> DTypeFromGguf(uint32_t ggml_type);

// Bytes of a row of `num_elements`. nullopt when it is no whole number of
// blocks, or overflows.
std::optional<uint64_t> RowBytes(DType dtype, uint64_t num_elements);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_DTYPE_H_
