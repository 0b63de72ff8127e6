// SPDX-License-Identifier: Apache-2.0
// The order of summation of quant/matmul.h in plain code, and numbers to sum.

#ifndef LOWMEM_TESTS_QUANT_KERNELS_LANE_REFERENCE_H_
#define LOWMEM_TESTS_QUANT_KERNELS_LANE_REFERENCE_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"

namespace lowmem::testing {

inline float SumLanes(float (&lanes)[16]) {
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// `fused` is whether the target's multiply-add rounds once.
inline float LaneDot(const float* a, const float* b, size_t n, bool fused) {
  float lanes[16] = {};
  for (size_t i = 0; i < (n + 15) / 16 * 16; ++i) {
    const float x = i < n ? a[i] : 0.0f;
    const float y = i < n ? b[i] : 0.0f;
    float& lane = lanes[i % 16];
    lane = fused ? std::fma(x, y, lane) : x * y + lane;
  }
  return SumLanes(lanes);
}

// Of both signs, exponents spread over a few octaves so that rounding shows.
inline std::vector<float> RandomFloats(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// The same bits, or both NaN: which NaN an operation gives is the processor's
// choice.
MATCHER_P(SameBits, expected, "has the same bits") {
  if (std::isnan(arg)) return std::isnan(expected);
  return std::bit_cast<uint32_t>(static_cast<float>(arg)) ==
         std::bit_cast<uint32_t>(static_cast<float>(expected));
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_QUANT_KERNELS_LANE_REFERENCE_H_
