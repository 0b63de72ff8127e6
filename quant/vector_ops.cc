// SPDX-License-Identifier: Apache-2.0
// Rotary angles: few and in double, so plain code, the same everywhere. The
// other operations of vector_ops.h are in quant/kernels.
#include "quant/vector_ops.h"

#include <bit>
#include <cstdint>

namespace lowmem {
namespace {

struct SinCos {
  double sin;
  double cos;
};

// Taylor's series; for |r| <= pi/4 what is left out is below 2^-44.
SinCos SinCosOfReduced(double r) {
  const double z = r * r;
  const double sin =
      r + r * z *
              (-1.0 / 6 +
               z * (1.0 / 120 +
                    z * (-1.0 / 5040 +
                         z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                  z * (1.0 / 6227020800))))));
  const double cos =
      1.0 + z * (-1.0 / 2 +
                 z * (1.0 / 24 +
                      z * (-1.0 / 720 +
                           z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                                   z * (1.0 / 479001600))))));
  return {sin, cos};
}

SinCos SinCosOf(double angle) {
  // Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
  constexpr double kMagic = 0x1.8p52;
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  // pi/2 in two parts. The first has 29 bits: its product with a number of
  // quarter turns below 2^24 is exact.
  constexpr double kHalfPiHigh = 0x1.921fb54p+0;
  constexpr double kHalfPiLow = 0x1.10b4611a62633p-30;
  const double shifted = angle * kTwoOverPi + kMagic;
  const double quarters = shifted - kMagic;
  const double r = (angle - quarters * kHalfPiHigh) - quarters * kHalfPiLow;
  const SinCos reduced = SinCosOfReduced(r);
  switch (std::bit_cast<uint64_t>(shifted) & 3u) {
    case 0:
      return reduced;
    case 1:
      return {reduced.cos, -reduced.sin};
    case 2:
      return {-reduced.sin, -reduced.cos};
    default:
      return {-reduced.cos, reduced.sin};
  }
}

}  // namespace

void RopeAngles(float position, const float* inv_freq, size_t num_pairs,
                float scale, float* cos_out, float* sin_out) {
  for (size_t i = 0; i < num_pairs; ++i) {
    const float angle = position * inv_freq[i];
    const SinCos values = SinCosOf(static_cast<double>(angle));
    cos_out[i] = static_cast<float>(values.cos) * scale;
    sin_out[i] = static_cast<float>(values.sin) * scale;
  }
}

}  // namespace lowmem
