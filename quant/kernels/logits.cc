// SPDX-License-Identifier: Apache-2.0
// The operations on logits of quant/vector_ops.h.
#include "quant/kernels/simd_targets.h"
#include "quant/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/logits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

size_t ArgMaxOnTarget(const float* x, size_t n) {
  const FloatTag d;
  const float largest = LargestOf(x, n);
  const FloatVec target = hn::Set(d, largest);
  size_t i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    const auto found = hn::Eq(hn::LoadU(d, x + i), target);
    if (!hn::AllFalse(d, found)) break;
  }
  for (; i < n; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;
}

// v * 0 is 0 for finite values and NaN for others.
bool AllFiniteOnTarget(const float* x, size_t n) {
  const Lanes products =
      Fold(x, n, ZeroLanes(), [](FloatVec sum, FloatVec v) HWY_ATTR {
        return hn::MulAdd(v, hn::Zero(FloatTag()), sum);
      });
  return SumOfLanes(products) == 0.0f;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(ArgMaxOnTarget);
HWY_EXPORT(AllFiniteOnTarget);

size_t ArgMax(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(ArgMaxOnTarget)(x, n);
}

bool AllFinite(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteOnTarget)(x, n);
}

}  // namespace lowmem
#endif  // HWY_ONCE
