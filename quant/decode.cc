// SPDX-License-Identifier: Apache-2.0
#include "quant/decode.h"

#include <array>

#include "quant/decode_rows.h"

namespace lowmem {
namespace {

// By DType; nullptr where there is no decoder. Tests hold it against
// DTypeTraits::decodable.
constexpr std::array<RowDecoder*, kNumDTypes> BuildTable() {
  std::array<RowDecoder*, kNumDTypes> table{};
  const auto set = [&table](DType dtype, RowDecoder* decoder) {
    table[static_cast<size_t>(dtype)] = decoder;
  };
  set(DType::kF32, DecodeF32);
  set(DType::kF16, DecodeF16);
  set(DType::kBF16, DecodeBF16);
  set(DType::kQ4_0, DecodeQ4_0);
  set(DType::kQ4_1, DecodeQ4_1);
  set(DType::kQ5_0, DecodeQ5_0);
  set(DType::kQ5_1, DecodeQ5_1);
  set(DType::kQ8_0, DecodeQ8_0);
  set(DType::kQ2_K, DecodeQ2_K);
  set(DType::kQ3_K, DecodeQ3_K);
  set(DType::kQ4_K, DecodeQ4_K);
  set(DType::kQ5_K, DecodeQ5_K);
  set(DType::kQ6_K, DecodeQ6_K);
  set(DType::kIQ2_XXS, DecodeIQ2_XXS);
  set(DType::kIQ2_XS, DecodeIQ2_XS);
  set(DType::kIQ3_XXS, DecodeIQ3_XXS);
  set(DType::kIQ1_S, DecodeIQ1_S);
  set(DType::kIQ4_NL, DecodeIQ4_NL);
  set(DType::kIQ3_S, DecodeIQ3_S);
  set(DType::kIQ2_S, DecodeIQ2_S);
  set(DType::kIQ4_XS, DecodeIQ4_XS);
  set(DType::kIQ1_M, DecodeIQ1_M);
  set(DType::kTQ1_0, DecodeTQ1_0);
  set(DType::kTQ2_0, DecodeTQ2_0);
  set(DType::kMXFP4, DecodeMXFP4);
  set(DType::kNVFP4, DecodeNVFP4);
  return table;
}

constexpr std::array<RowDecoder*, kNumDTypes> kDecoders = BuildTable();

}  // namespace

bool HasDecoder(DType dtype) {
  return kDecoders[static_cast<size_t>(dtype)] != nullptr;
}

void DecodeRow(DType dtype, const uint8_t* src, size_t num_elements,
               float* dst) {
  kDecoders[static_cast<size_t>(dtype)](src, num_elements, dst);
}

}  // namespace lowmem
