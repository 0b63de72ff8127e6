// SPDX-License-Identifier: Apache-2.0
// The vector operations of quant/vector_ops.h but for the rotary ones.
#include <cmath>

#include "quant/kernels/simd_targets.h"
#include "quant/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/vector_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/exp-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

void RmsNormOnTarget(const float* x, const float* weight, float epsilon,
                     size_t n, float* out) {
  const FloatTag d;
  const Lanes squares = Fold(x, n, ZeroLanes(),
                             [](FloatVec sum, FloatVec v)
                                 HWY_ATTR { return hn::MulAdd(v, v, sum); });
  const float mean = SumOfLanes(squares) / static_cast<float>(n);
  const FloatVec factor =
      hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Set(d, mean + epsilon)));
  Transform(
      n, out,
      [factor](FloatVec v, FloatVec w)
          HWY_ATTR { return hn::Mul(hn::Mul(v, factor), w); },
      x, weight);
}

void AddOnTarget(const float* addend, size_t n, float* inout) {
  Transform(
      n, inout, [](FloatVec a, FloatVec b) HWY_ATTR { return hn::Add(a, b); },
      inout, addend);
}

void ScaleAddOnTarget(float scale, const float* x, size_t n, float* inout) {
  const FloatVec factor = hn::Set(FloatTag(), scale);
  Transform(
      n, inout,
      [factor](FloatVec a, FloatVec v)
          HWY_ATTR { return hn::MulAdd(factor, v, a); },
      inout, x);
}

// With e = exp(-|v|), which cannot overflow, sigmoid is 1 / (1 + e) or e / (1 +
// e).
void SiluMulOnTarget(const float* up, size_t n, float* gate) {
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0f);
  Transform(
      n, gate,
      [d, one](FloatVec v, FloatVec u) HWY_ATTR {
        const FloatVec e = ExpOfNonPositive(hn::Neg(hn::Abs(v)));
        const auto negative = hn::Lt(v, hn::Zero(d));
        const FloatVec numerator = hn::IfThenElse(negative, hn::Mul(v, e), v);
        return hn::Mul(hn::Div(numerator, hn::Add(one, e)), u);
      },
      gate, up);
}

// Largest value; NaN is passed over. Minus infinity for none.
float Largest(const float* x, size_t n) {
  const FloatTag d;
  const FloatVec lowest = hn::Set(d, -HUGE_VALF);
  FloatVec largest = lowest;
  size_t i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    const FloatVec v = hn::LoadU(d, x + i);
    largest = hn::IfThenElse(hn::Gt(v, largest), v, largest);
  }
  HWY_ALIGN float rest[kVecLanes];
  hn::Store(largest, d, rest);
  float result = -HUGE_VALF;
  for (float v : rest) result = v > result ? v : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

void SoftmaxOnTarget(size_t n, float* inout) {
  const FloatTag d;
  const FloatVec largest = hn::Set(d, Largest(inout, n));
  Transform(
      n, inout,
      [largest](FloatVec v)
          HWY_ATTR { return ExpOfNonPositive(hn::Sub(v, largest)); },
      inout);
  const Lanes sums =
      Fold(inout, n, ZeroLanes(),
           [](FloatVec sum, FloatVec v) HWY_ATTR { return hn::Add(sum, v); });
  const FloatVec sum = hn::Set(d, SumOfLanes(sums));
  Transform(
      n, inout, [sum](FloatVec v) HWY_ATTR { return hn::Div(v, sum); }, inout);
}

size_t ArgMaxOnTarget(const float* x, size_t n) {
  const FloatTag d;
  const float largest = Largest(x, n);
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

HWY_EXPORT(RmsNormOnTarget);
HWY_EXPORT(AddOnTarget);
HWY_EXPORT(ScaleAddOnTarget);
HWY_EXPORT(SiluMulOnTarget);
HWY_EXPORT(SoftmaxOnTarget);
HWY_EXPORT(ArgMaxOnTarget);
HWY_EXPORT(AllFiniteOnTarget);

void RmsNorm(const float* x, const float* weight, float epsilon, size_t n,
             float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNormOnTarget)(x, weight, epsilon, n, out);
}

void AddInPlace(const float* addend, size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(AddOnTarget)(addend, n, inout);
}

void ScaleAdd(float scale, const float* x, size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(ScaleAddOnTarget)(scale, x, n, inout);
}

void SiluMul(const float* up, size_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(SiluMulOnTarget)(up, n, gate);
}

void Softmax(size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(SoftmaxOnTarget)(n, inout);
}

size_t ArgMax(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(ArgMaxOnTarget)(x, n);
}

bool AllFinite(const float* x, size_t n) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteOnTarget)(x, n);
}

}  // namespace lowmem
#endif  // HWY_ONCE
