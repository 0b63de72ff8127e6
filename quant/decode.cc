// SPDX-License-Identifier: Apache-2.0
// One table of decoders for each instruction set. The loops before the last step
// (write_scaled-inl.h) are plain C++; compiled for the baseline alone they ran at
// half the speed or less (bench/quant/decode_bench).
#include "quant/decode.h"

#include <array>

#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/decode.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/decode_float-inl.h"
#include "quant/decode_fp4-inl.h"
#include "quant/decode_iq-inl.h"
#include "quant/decode_iq1-inl.h"
#include "quant/decode_iq4-inl.h"
#include "quant/decode_k-inl.h"
#include "quant/decode_legacy-inl.h"
#include "quant/decode_ternary-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Takes whole blocks; src and dst do not overlap.
using RowDecoder = void (*)(const uint8_t* src, size_t num_elements,
                            float* dst);

// By DType; nullptr where there is no decoder. Tests hold it against
// DTypeTraits::decodable.
constexpr std::array<RowDecoder, kNumDTypes> BuildTable() {
  std::array<RowDecoder, kNumDTypes> table{};
  const auto set = [&table](DType dtype, RowDecoder decoder) {
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

RowDecoder DecoderOf(DType dtype) {
  static constexpr std::array<RowDecoder, kNumDTypes> kDecoders = BuildTable();
  return kDecoders[static_cast<size_t>(dtype)];
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(DecoderOf);

bool HasDecoder(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(DecoderOf)(dtype) != nullptr;
}

void DecodeRow(DType dtype, const uint8_t* src, size_t num_elements,
               float* dst) {
  HWY_DYNAMIC_DISPATCH(DecoderOf)(dtype)(src, num_elements, dst);
}

}  // namespace lowmem
#endif  // HWY_ONCE
