// SPDX-License-Identifier: Apache-2.0
// Types of evenly spread codes and of sixteen levels.
#include "quant/kernels/block_kernels.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/small_block_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/block_rows-inl.h"
#include "quant/kernels/fp4_blocks-inl.h"
#include "quant/kernels/iq4_blocks-inl.h"
#include "quant/kernels/small_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

BlockKernels SmallBlockKernelsOnTarget(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return KernelsOfBlock<Q4_0Block>();
    case DType::kQ4_1:
      return KernelsOfBlock<Q4_1Block>();
    case DType::kQ5_0:
      return KernelsOfBlock<Q5_0Block>();
    case DType::kQ5_1:
      return KernelsOfBlock<Q5_1Block>();
    case DType::kQ8_0:
      return KernelsOfBlock<Q8_0Block>();
    case DType::kIQ4_NL:
      return KernelsOfBlock<IQ4_NLBlock>();
    case DType::kIQ4_XS:
      return KernelsOfBlock<IQ4_XSBlock>();
    case DType::kMXFP4:
      return KernelsOfBlock<MXFP4Block>();
    case DType::kNVFP4:
      return KernelsOfBlock<NVFP4Block>();
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

HWY_EXPORT(SmallBlockKernelsOnTarget);

BlockKernels SmallBlockKernels(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(SmallBlockKernelsOnTarget)(dtype);
}

}  // namespace lowmem
#endif  // HWY_ONCE
