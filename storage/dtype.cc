// SPDX-License-Identifier: Apache-2.0
#include "storage/dtype.h"

#include <array>

#include "storage/base/checked_math.h"

namespace lowmem {
namespace {

struct Row {
  DType dtype;
  DTypeTraits traits;
  int gguf_id;          // ggml_type, or -1
  bool is_safetensors;  // the printed name is also safetensors' name
};

// In the order of DType. Block sizes are ggml's, proved by tests against
// gguf-types.json.
constexpr std::array<Row, kNumDTypes> kRows = {{
    {DType::kF32, {"F32", 1, 4, true}, 0, true},
    {DType::kF16, {"F16", 1, 2, true}, 1, true},
    {DType::kBF16, {"BF16", 1, 2, true}, 30, true},
    {DType::kF64, {"F64", 1, 8, false}, 28, true},
    {DType::kQ4_0, {"Q4_0", 32, 18, true}, 2, false},
    {DType::kQ4_1, {"Q4_1", 32, 20, true}, 3, false},
    {DType::kQ5_0, {"Q5_0", 32, 22, true}, 6, false},
    {DType::kQ5_1, {"Q5_1", 32, 24, true}, 7, false},
    {DType::kQ8_0, {"Q8_0", 32, 34, true}, 8, false},
    {DType::kQ8_1, {"Q8_1", 32, 40, false}, 9, false},
    {DType::kQ2_K, {"Q2_K", 256, 84, true}, 10, false},
    {DType::kQ3_K, {"Q3_K", 256, 110, true}, 11, false},
    {DType::kQ4_K, {"Q4_K", 256, 144, true}, 12, false},
    {DType::kQ5_K, {"Q5_K", 256, 176, true}, 13, false},
    {DType::kQ6_K, {"Q6_K", 256, 210, true}, 14, false},
    {DType::kQ8_K, {"Q8_K", 256, 292, false}, 15, false},
    {DType::kIQ2_XXS, {"IQ2_XXS", 256, 66, true}, 16, false},
    {DType::kIQ2_XS, {"IQ2_XS", 256, 74, true}, 17, false},
    {DType::kIQ3_XXS, {"IQ3_XXS", 256, 98, true}, 18, false},
    {DType::kIQ1_S, {"IQ1_S", 256, 50, true}, 19, false},
    {DType::kIQ4_NL, {"IQ4_NL", 32, 18, true}, 20, false},
    {DType::kIQ3_S, {"IQ3_S", 256, 110, true}, 21, false},
    {DType::kIQ2_S, {"IQ2_S", 256, 82, true}, 22, false},
    {DType::kIQ4_XS, {"IQ4_XS", 256, 136, true}, 23, false},
    {DType::kIQ1_M, {"IQ1_M", 256, 56, true}, 29, false},
    {DType::kTQ1_0, {"TQ1_0", 256, 54, true}, 34, false},
    {DType::kTQ2_0, {"TQ2_0", 256, 66, true}, 35, false},
    {DType::kMXFP4, {"MXFP4", 32, 17, true}, 39, false},
    {DType::kNVFP4, {"NVFP4", 64, 36, true}, 40, false},
    {DType::kQ1_0, {"Q1_0", 128, 18, false}, 41, false},
    {DType::kI8, {"I8", 1, 1, false}, 24, true},
    {DType::kI16, {"I16", 1, 2, false}, 25, true},
    {DType::kI32, {"I32", 1, 4, false}, 26, true},
    {DType::kI64, {"I64", 1, 8, false}, 27, true},
    {DType::kU8, {"U8", 1, 1, false}, -1, true},
    {DType::kU16, {"U16", 1, 2, false}, -1, true},
    {DType::kU32, {"U32", 1, 4, false}, -1, true},
    {DType::kU64, {"U64", 1, 8, false}, -1, true},
    {DType::kBool, {"BOOL", 1, 1, false}, -1, true},
    {DType::kC64, {"C64", 1, 8, false}, -1, true},
    {DType::kF8_E4M3, {"F8_E4M3", 1, 1, false}, -1, true},
    {DType::kF8_E5M2, {"F8_E5M2", 1, 1, false}, -1, true},
    {DType::kF8_E8M0, {"F8_E8M0", 1, 1, false}, -1, true},
    {DType::kF8_E4M3FNUZ, {"F8_E4M3FNUZ", 1, 1, false}, -1, true},
    {DType::kF8_E5M2FNUZ, {"F8_E5M2FNUZ", 1, 1, false}, -1, true},
    {DType::kF6_E2M3, {"F6_E2M3", 4, 3, false}, -1, true},
    {DType::kF6_E3M2, {"F6_E3M2", 4, 3, false}, -1, true},
    {DType::kF4, {"F4", 2, 1, false}, -1, true},
}};

constexpr bool RowsFollowEnum() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(RowsFollowEnum());

}  // namespace

const DTypeTraits& TraitsOf(DType dtype) {
  return kRows[static_cast<size_t>(dtype)].traits;
}

std::optional<DType> DTypeFromSafetensors(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.is_safetensors && row.traits.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> DTypeFromGguf(uint32_t ggml_type) {
  for (const Row& row : kRows) {
    if (row.gguf_id >= 0 && static_cast<uint32_t>(row.gguf_id) == ggml_type) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> RowBytes(DType dtype, uint64_t num_elements) {
  const DTypeTraits& traits = TraitsOf(dtype);
  if (num_elements % traits.block_elements != 0) return std::nullopt;
  return CheckedMul(num_elements / traits.block_elements, traits.block_bytes);
}

}  // namespace lowmem
