// SPDX-License-Identifier: Apache-2.0
// The activation functions of quant/vector_ops.h.
#include "quant/kernels/simd_targets.h"
#include "quant/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/activations.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/exp-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

struct Silu {
  HWY_INLINE FloatVec operator()(FloatVec v) const {
    return TimesSigmoid(v, v);
  }
};

// (1 + tanh(y)) / 2 is the sigmoid of 2 y; so the tail of negative numbers,
// where 1 + tanh cancels, keeps its digits.
struct TanhGelu {
  HWY_INLINE FloatVec operator()(FloatVec v) const {
    const FloatTag d;
    // 2 sqrt(2 / pi), and 0.044715 of it. A square or cube that overflows is
    // infinite, with the sign of v, as it should be.
    const FloatVec linear = hn::Set(d, 1.5957691216f);
    const FloatVec cubic = hn::Set(d, 0.0713548162726f);
    const FloatVec slope = hn::MulAdd(hn::Mul(v, v), cubic, linear);
    return TimesSigmoid(v, hn::Mul(v, slope));
  }
};

struct ErfGelu {
  HWY_INLINE FloatVec operator()(FloatVec v) const {
    return TimesNormalShare(v);
  }
};

template <class F>
HWY_INLINE void Activate(size_t n, float* inout) {
  Transform(
      n, inout, [](FloatVec v) HWY_ATTR { return F()(v); }, inout);
}

template <class F>
HWY_INLINE void ActivateMul(const float* up, size_t n, float* gate) {
  Transform(
      n, gate,
      [](FloatVec v, FloatVec u) HWY_ATTR { return hn::Mul(F()(v), u); }, gate,
      up);
}

void SiluMulOnTarget(const float* up, size_t n, float* gate) {
  ActivateMul<Silu>(up, n, gate);
}
void GeluTanhOnTarget(size_t n, float* inout) { Activate<TanhGelu>(n, inout); }
void GeluTanhMulOnTarget(const float* up, size_t n, float* gate) {
  ActivateMul<TanhGelu>(up, n, gate);
}
void GeluErfOnTarget(size_t n, float* inout) { Activate<ErfGelu>(n, inout); }
void GeluErfMulOnTarget(const float* up, size_t n, float* gate) {
  ActivateMul<ErfGelu>(up, n, gate);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(SiluMulOnTarget);
HWY_EXPORT(GeluTanhOnTarget);
HWY_EXPORT(GeluTanhMulOnTarget);
HWY_EXPORT(GeluErfOnTarget);
HWY_EXPORT(GeluErfMulOnTarget);

void SiluMul(const float* up, size_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(SiluMulOnTarget)(up, n, gate);
}

void GeluTanh(size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(GeluTanhOnTarget)(n, inout);
}

void GeluTanhMul(const float* up, size_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(GeluTanhMulOnTarget)(up, n, gate);
}

void GeluErf(size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(GeluErfOnTarget)(n, inout);
}

void GeluErfMul(const float* up, size_t n, float* gate) {
  HWY_DYNAMIC_DISPATCH(GeluErfMulOnTarget)(up, n, gate);
}

}  // namespace lowmem
#endif  // HWY_ONCE
