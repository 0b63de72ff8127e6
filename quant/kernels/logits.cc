// SPDX-License-Identifier: Apache-2.0
// The operations on logits of quant/vector_ops.h.
#include <cfloat>
#include <cmath>

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

size_t FindAboveOnTarget(const float* x, size_t begin, size_t n,
                         float threshold) {
  const FloatTag d;
  const FloatVec limit = hn::Set(d, threshold);
  size_t i = begin;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    const auto above = hn::Gt(hn::LoadU(d, x + i), limit);
    const intptr_t lane = hn::FindFirstTrue(d, above);
    if (lane >= 0) return i + static_cast<size_t>(lane);
  }
  for (; i < n; ++i) {
    if (x[i] > threshold) return i;
  }
  return n;
}

void ScaleLogitsOnTarget(const float* x, float largest, float temperature,
                         size_t n, float* out) {
  const FloatTag d;
  const FloatVec most = hn::Set(d, FLT_MAX);
  const FloatVec none = hn::Set(d, -HUGE_VALF);
  const FloatVec subtrahend = hn::Set(d, largest);
  const FloatVec divisor = hn::Set(d, temperature);
  Transform(
      n, out,
      [=](FloatVec v) HWY_ATTR {
        v = hn::IfThenElse(hn::Gt(v, most), most, v);
        v = hn::IfThenElse(hn::Eq(v, v), v, none);
        return Divide(hn::Sub(v, subtrahend), divisor);
      },
      x);
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
HWY_EXPORT(FindAboveOnTarget);
HWY_EXPORT(ScaleLogitsOnTarget);
HWY_EXPORT(AllFiniteOnTarget);

size_t ArgMax(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(ArgMaxOnTarget)(x, n);
}

size_t FindAbove(const float* x, size_t begin, size_t n, float threshold) {
  return HWY_DYNAMIC_DISPATCH(FindAboveOnTarget)(x, begin, n, threshold);
}

void ScaleLogits(const float* x, float largest, float temperature, size_t n,
                 float* out) {
  HWY_DYNAMIC_DISPATCH(ScaleLogitsOnTarget)
  (x, largest, temperature, n, out);
}

bool AllFinite(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteOnTarget)(x, n);
}

}  // namespace lowmem
#endif  // HWY_ONCE
