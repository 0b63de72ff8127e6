// SPDX-License-Identifier: Apache-2.0
// Superblocks whose values come from codebooks, and ternary ones.
#include "quant/kernels/block_kernels.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/iq_block_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/block_rows-inl.h"
#include "quant/kernels/iq1_rows-inl.h"
#include "quant/kernels/iq_rows-inl.h"
#include "quant/kernels/ternary_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

BlockKernels IqBlockKernelsOnTarget(DType dtype) {
  switch (dtype) {
    case DType::kIQ2_XXS:
      return KernelsOfStoredBlock<DecodeIQ2_XXS, 66>();
    case DType::kIQ2_XS:
      return KernelsOfStoredBlock<DecodeIQ2_XS, 74>();
    case DType::kIQ2_S:
      return KernelsOfStoredBlock<DecodeIQ2_S, 82>();
    case DType::kIQ3_XXS:
      return KernelsOfStoredBlock<DecodeIQ3_XXS, 98>();
    case DType::kIQ3_S:
      return KernelsOfStoredBlock<DecodeIQ3_S, 110>();
    case DType::kIQ1_S:
      return KernelsOfStoredBlock<DecodeIQ1_S, 50>();
    case DType::kIQ1_M:
      return KernelsOfStoredBlock<DecodeIQ1_M, 56>();
    case DType::kTQ1_0:
      return KernelsOfStoredBlock<DecodeTQ1_0, 54>();
    case DType::kTQ2_0:
      return KernelsOfBlock<TQ2_0Block>();
    default:
      return {};
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(IqBlockKernelsOnTarget);

BlockKernels IqBlockKernels(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(IqBlockKernelsOnTarget)(dtype);
}

}  // namespace lowmem
#endif  // HWY_ONCE
