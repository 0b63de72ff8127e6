// SPDX-License-Identifier: Apache-2.0
// Norms, sums and softmax of quant/vector_ops.h.
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

// One for all lanes, in scalar code: as vectors NEON of 32 bits has neither a
// root nor a division that is rounded once.
HWY_INLINE FloatVec OneOverRoot(float x) {
  return hn::Set(FloatTag(), 1.0f / std::sqrt(x));
}

void RmsNormOnTarget(const float* x, const float* weight, float epsilon,
                     size_t n, float* out) {
  const Lanes squares = Fold(x, n, ZeroLanes(),
                             [](FloatVec sum, FloatVec v)
                                 HWY_ATTR { return hn::MulAdd(v, v, sum); });
  const float mean = SumOfLanes(squares) / static_cast<float>(n);
  const FloatVec factor = OneOverRoot(mean + epsilon);
  Transform(
      n, out,
      [factor](FloatVec v, FloatVec w)
          HWY_ATTR { return hn::Mul(hn::Mul(v, factor), w); },
      x, weight);
}

// The differences to the mean are kept in `out` in between, so that what pads
// the last group adds nothing to their squares.
void LayerNormOnTarget(const float* x, const float* weight, const float* bias,
                       float epsilon, size_t n, float* out) {
  const FloatTag d;
  const auto add = [](FloatVec sum, FloatVec v)
                       HWY_ATTR { return hn::Add(sum, v); };
  const auto add_square = [](FloatVec sum, FloatVec v)
                              HWY_ATTR { return hn::MulAdd(v, v, sum); };
  const float count = static_cast<float>(n);
  const FloatVec mean =
      hn::Set(d, SumOfLanes(Fold(x, n, ZeroLanes(), add)) / count);
  Transform(
      n, out, [mean](FloatVec v) HWY_ATTR { return hn::Sub(v, mean); }, x);
  const float variance =
      SumOfLanes(Fold(out, n, ZeroLanes(), add_square)) / count;
  const FloatVec factor = OneOverRoot(variance + epsilon);
  if (bias == nullptr) {
    Transform(
        n, out,
        [factor](FloatVec v, FloatVec w)
            HWY_ATTR { return hn::Mul(hn::Mul(v, factor), w); },
        out, weight);
    return;
  }
  Transform(
      n, out,
      [factor](FloatVec v, FloatVec w, FloatVec b)
          HWY_ATTR { return hn::MulAdd(hn::Mul(v, factor), w, b); },
      out, weight, bias);
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

void SoftmaxOnTarget(size_t n, float* inout) {
  const FloatTag d;
  const FloatVec largest = hn::Set(d, LargestOf(inout, n));
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
      n, inout, [sum](FloatVec v) HWY_ATTR { return Divide(v, sum); }, inout);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(RmsNormOnTarget);
HWY_EXPORT(LayerNormOnTarget);
HWY_EXPORT(AddOnTarget);
HWY_EXPORT(ScaleAddOnTarget);
HWY_EXPORT(SoftmaxOnTarget);

void RmsNorm(const float* x, const float* weight, float epsilon, size_t n,
             float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNormOnTarget)(x, weight, epsilon, n, out);
}

void LayerNorm(const float* x, const float* weight, const float* bias,
               float epsilon, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(LayerNormOnTarget)(x, weight, bias, epsilon, n, out);
}

void AddInPlace(const float* addend, size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(AddOnTarget)(addend, n, inout);
}

void ScaleAdd(float scale, const float* x, size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(ScaleAddOnTarget)(scale, x, n, inout);
}

void Softmax(size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(SoftmaxOnTarget)(n, inout);
}

}  // namespace lowmem
#endif  // HWY_ONCE
