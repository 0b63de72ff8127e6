// SPDX-License-Identifier: Apache-2.0
// The exponential function, and what is made of it, as the engine computes
// them: the same operations on every target. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_EXP_INL_H_
#undef LOWMEM_QUANT_KERNELS_EXP_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_EXP_INL_H_
#endif

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// exp(x) for x <= 0, minus infinity included, within 2 ulp; 0 below -87.33,
// where the result would be denormal. NaN stays NaN.
HWY_INLINE FloatVec ExpOfNonPositive(FloatVec x) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  const FloatVec lowest = hn::Set(d, -87.33f);
  const auto underflows = hn::Lt(x, lowest);
  x = hn::IfThenElse(underflows, lowest, x);

  // x = power * ln 2 + r, |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to an
  // integer and leaves it in the low bits.
  const FloatVec magic = hn::Set(d, 0x1.8p23f);
  const FloatVec shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), magic);
  const FloatVec power = hn::Sub(shifted, magic);
  // ln 2 in two parts; the first has 9 bits, so its product is exact even where
  // nothing is fused.
  FloatVec r = hn::NegMulAdd(power, hn::Set(d, 0x1.63p-1f), x);
  r = hn::NegMulAdd(power, hn::Set(d, -0x1.bd0106p-13f), r);

  // Taylor's series to r^7; the rest is below 2^-27.
  FloatVec p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0f));

  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)),
                                hn::Set(du, 0x3f800000u));
  const FloatVec result = hn::Mul(p, hn::BitCast(d, exponent));
  return hn::IfThenElse(underflows, hn::Zero(d), result);
}

// x / (1 + exp(-y)), x and y of one sign: with e = exp(-|y|), which cannot
// overflow, that is x / (1 + e) or x e / (1 + e).
HWY_INLINE FloatVec TimesSigmoid(FloatVec x, FloatVec y) {
  const FloatTag d;
  const FloatVec e = ExpOfNonPositive(hn::Neg(hn::Abs(y)));
  const auto negative = hn::Lt(x, hn::Zero(d));
  const FloatVec numerator = hn::IfThenElse(negative, hn::Mul(x, e), x);
  return Divide(numerator, hn::Add(hn::Set(d, 1.0f), e));
}

// x times the share of the normal distribution that is below x: the exact GELU.
//
// Above |x| that share is q = exp(-x^2 / 2) R(|x|). R falls smoothly from a
// half to 1 / (|x| sqrt(2 pi)): in t = 1 / (1 + 0.35 |x|) it is t times a
// polynomial of degree 8, fitted to the relative error (Lawson's iteration)
// over |x| < 13.5, behind which exp is 0. Its error is 2^-24.9, 2^-21.6 when
// computed. Neither x (1 - q) nor x q cancels.
HWY_INLINE FloatVec TimesNormalShare(FloatVec x) {
  const FloatTag d;
  const FloatVec one = hn::Set(d, 1.0f);
  const FloatVec a = hn::Abs(x);
  const FloatVec t = Divide(one, hn::MulAdd(a, hn::Set(d, 0.35f), one));
  FloatVec r = hn::Set(d, -0x1.dd3326p-6f);
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.26a6bap-3f));
  r = hn::MulAdd(r, t, hn::Set(d, -0x1.05a33ap-2f));
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.457d3ep-3f));
  r = hn::MulAdd(r, t, hn::Set(d, -0x1.77d004p-6f));
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.afdab6p-4f));
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.eaea54p-4f));
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.1e6e72p-3f));
  r = hn::MulAdd(r, t, hn::Set(d, 0x1.1df1eap-3f));
  const FloatVec e =
      ExpOfNonPositive(hn::Mul(hn::Mul(a, hn::Set(d, -0.5f)), a));
  const FloatVec q = hn::Mul(hn::Mul(r, t), e);
  const auto negative = hn::Lt(x, hn::Zero(d));
  return hn::Mul(x, hn::IfThenElse(negative, q, hn::Sub(one, q)));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_EXP_INL_H_
