// SPDX-License-Identifier: Apache-2.0
// Floats are plain loops, compiled for each instruction set; compiled for the
// baseline alone they ran at half the speed or less (bench/quant/decode_bench).
#include "quant/decode.h"

#include "quant/kernels/block_kernels.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/decode.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

RowDecoder FloatDecoderOnTarget(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DecodeF32;
    case DType::kF16:
      return DecodeF16;
    case DType::kBF16:
      return DecodeBF16;
    default:
      return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {
namespace {

HWY_EXPORT(FloatDecoderOnTarget);

RowDecoder DecoderOf(DType dtype) {
  const RowDecoder decoder = HWY_DYNAMIC_DISPATCH(FloatDecoderOnTarget)(dtype);
  return decoder != nullptr ? decoder : KernelsOf(dtype).decode_row;
}

}  // namespace

bool HasDecoder(DType dtype) { return DecoderOf(dtype) != nullptr; }

void DecodeRow(DType dtype, const uint8_t* src, size_t num_elements,
               float* dst) {
  DecoderOf(dtype)(src, num_elements, dst);
}

}  // namespace lowmem
#endif  // HWY_ONCE
