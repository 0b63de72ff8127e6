// SPDX-License-Identifier: Apache-2.0
// Q2_K to Q6_K.
#include "quant/kernels/block_kernels.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/k_block_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/block_rows-inl.h"
#include "quant/kernels/k_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

BlockKernels KBlockKernelsOnTarget(DType dtype) {
  switch (dtype) {
    case DType::kQ2_K:
      return KernelsOfBlock<Q2_KBlock>();
    case DType::kQ3_K:
      return KernelsOfBlock<Q3_KBlock>();
    case DType::kQ4_K:
      return KernelsOfBlock<Q4_KBlock>();
    case DType::kQ5_K:
      return KernelsOfBlock<Q5_KBlock>();
    case DType::kQ6_K:
      return KernelsOfBlock<Q6_KBlock>();
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

HWY_EXPORT(KBlockKernelsOnTarget);

BlockKernels KBlockKernels(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(KBlockKernelsOnTarget)(dtype);
}

}  // namespace lowmem
#endif  // HWY_ONCE
