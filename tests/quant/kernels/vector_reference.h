// SPDX-License-Identifier: Apache-2.0
// What the tests of vector operations share: lengths around the edges of
// vectors and lanes, vectors in bad places, and exp operation by operation.

#ifndef LOWMEM_TESTS_QUANT_KERNELS_VECTOR_REFERENCE_H_
#define LOWMEM_TESTS_QUANT_KERNELS_VECTOR_REFERENCE_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lowmem::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kMax = std::numeric_limits<float>::max();

inline std::vector<size_t> Lengths() {
  std::vector<size_t> lengths = {127, 128, 129, 255, 256, 257, 576, 896, 4864};
  for (size_t n = 1; n <= 70; ++n) lengths.push_back(n);
  return lengths;
}

// Distance from the exact value, in units of the last place of its float.
inline double UlpsFrom(long double exact, float value) {
  const float nearest = std::fabs(static_cast<float>(exact));
  const long double ulp =
      static_cast<long double>(std::nextafter(nearest, kInf)) - nearest;
  return static_cast<double>(std::fabs(exact - value) / ulp);
}

// The engine's exp for x <= 0 in plain code: its operations one by one.
inline float ExpByDefinition(float x, bool fused) {
  const auto multiply_add = [fused](float a, float b, float c) {
    return fused ? std::fma(a, b, c) : a * b + c;
  };
  if (x < -87.33f) return 0.0f;
  const float power = multiply_add(x, 0x1.715476p0f, 0x1.8p23f) - 0x1.8p23f;
  float r = multiply_add(-power, 0x1.63p-1f, x);
  r = multiply_add(-power, -0x1.bd0106p-13f, r);
  float p = 1.0f / 5040;
  for (const float divisor : {720.0f, 120.0f, 24.0f, 6.0f, 2.0f}) {
    p = multiply_add(p, r, 1.0f / divisor);
  }
  p = multiply_add(p, r * r, r) + 1.0f;
  return std::ldexp(p, static_cast<int>(power));
}

// A copy that begins `shift` numbers behind an alignment of 64 bytes, between
// NaNs: one that is read shows in the result, one that is written shows here.
class Padded {
 public:
  Padded(const std::vector<float>& values, size_t shift)
      : size_(values.size()), floats_(values.size() + 3 * kRoom, Padding()) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(floats_.data());
    ofs_ = kRoom + (64 - base % 64) % 64 / sizeof(float) + shift % kRoom;
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return floats_.data() + ofs_; }
  std::vector<float> values() { return {data(), data() + size_}; }
  bool NeighboursUntouched() const {
    for (size_t i = 0; i < floats_.size(); ++i) {
      const bool inside = i >= ofs_ && i < ofs_ + size_;
      if (!inside && std::bit_cast<uint32_t>(floats_[i]) != kPaddingBits) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr uint32_t kPaddingBits = 0x7fc12345;  // a quiet NaN
  static constexpr size_t kRoom = 32;
  static float Padding() { return std::bit_cast<float>(kPaddingBits); }

  size_t size_;
  std::vector<float> floats_;
  size_t ofs_ = 0;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_QUANT_KERNELS_VECTOR_REFERENCE_H_
