// SPDX-License-Identifier: Apache-2.0
// Activations against libm in long double, and operation by operation.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/vector_ops.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/vector_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::ExpByDefinition;
using ::lowmem::testing::kInf;
using ::lowmem::testing::kMax;
using ::lowmem::testing::kNaN;
using ::lowmem::testing::Lengths;
using ::lowmem::testing::Padded;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;
using ::lowmem::testing::UlpsFrom;

constexpr float kSmallestNormal = std::numeric_limits<float>::min();

class ActivationsTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(ActivationsTest);

TEST_P(ActivationsTest, SiluMulIsWithinThreeUlps) {
  std::vector<float> v;
  for (float x = -86.0f; x < 90.0f; x += 0.00737f) v.push_back(x);
  // A float of 1e-40 would stay 0 where denormals are flushed.
  for (double x = 1e-40; x < 1e38; x *= 3.7) v.push_back(static_cast<float>(x));
  for (double x = 1e-40; x < 80; x *= 3.7) v.push_back(static_cast<float>(-x));
  std::vector<float> gate = v;
  const std::vector<float> up(v.size(), 1.0f);
  SiluMul(up.data(), v.size(), gate.data());
  for (size_t i = 0; i < v.size(); ++i) {
    // Half of it is the result.
    if (FlushesDenormals() && std::fabs(v[i]) < 2 * kSmallestNormal) continue;
    const long double exact =
        v[i] / (1.0L + std::exp(-static_cast<long double>(v[i])));
    const double ulps = UlpsFrom(exact, gate[i]);
    ASSERT_LE(ulps, 3.0) << v[i] << " gives " << gate[i];
  }
}

TEST_P(ActivationsTest, SiluMulHoldsAtTheEndsOfTheRange) {
  struct Case {
    float gate;
    float up;
    float expected;
  };
  const Case cases[] = {
      {kMax, 1.0f, kMax},     {-kMax, 1.0f, -0.0f},   {1e5f, 2.0f, 2e5f},
      {-1e5f, 2.0f, -0.0f},   {0.0f, 3.0f, 0.0f},     {-0.0f, 3.0f, -0.0f},
      {104.5f, 1.0f, 104.5f}, {-200.0f, 1.0f, -0.0f}, {kInf, 1.0f, kInf},
      {-kInf, 1.0f, kNaN},    {kNaN, 1.0f, kNaN},     {1.0f, kNaN, kNaN},
      {kMax, 2.0f, kInf}};
  for (const Case& c : cases) {
    std::vector<float> gate(21, c.gate);
    const std::vector<float> up(21, c.up);
    SiluMul(up.data(), gate.size(), gate.data());
    for (const float value : gate) {
      EXPECT_THAT(value, SameBits(c.expected)) << c.gate << " " << c.up;
    }
  }
}

TEST_P(ActivationsTest, SiluMulIsTheSameOperationsInEveryPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = RandomFloats(n, 5);
    const std::vector<float> up = RandomFloats(n, 6);
    Padded gate(v, n % 17);
    Padded other(up, n % 5);
    SiluMul(other.data(), n, gate.data());
    for (size_t i = 0; i < n; ++i) {
      const float e = ExpByDefinition(-std::fabs(v[i]), IsFused());
      const float silu = (v[i] < 0 ? v[i] * e : v[i]) / (1.0f + e);
      ASSERT_THAT(gate.values()[i], SameBits(silu * up[i])) << n << " " << i;
    }
    EXPECT_TRUE(gate.NeighboursUntouched()) << n;
  }
}

// The engine's operations one by one.
float MultiplyAdd(float a, float b, float c, bool fused) {
  return fused ? std::fma(a, b, c) : a * b + c;
}

float GeluTanhByDefinition(float v, bool fused) {
  const float slope =
      MultiplyAdd(v * v, 0.0713548162726f, 1.5957691216f, fused);
  const float e = ExpByDefinition(-std::fabs(v * slope), fused);
  return (v < 0 ? v * e : v) / (1.0f + e);
}

float GeluErfByDefinition(float v, bool fused) {
  const float a = std::fabs(v);
  const float t = 1.0f / MultiplyAdd(a, 0.35f, 1.0f, fused);
  float r = -0x1.dd3326p-6f;
  for (const float c :
       {0x1.26a6bap-3f, -0x1.05a33ap-2f, 0x1.457d3ep-3f, -0x1.77d004p-6f,
        0x1.afdab6p-4f, 0x1.eaea54p-4f, 0x1.1e6e72p-3f, 0x1.1df1eap-3f}) {
    r = MultiplyAdd(r, t, c, fused);
  }
  const float q = r * t * ExpByDefinition(a * -0.5f * a, fused);
  return v * (v < 0 ? q : 1.0f - q);
}

// The references, in long double; neither loses digits below zero.
long double ExactGeluTanh(long double v) {
  const long double y =
      1.5957691216057307117597842397375274738L * (v + 0.044715L * v * v * v);
  return v / (1 + std::exp(-y));
}
long double ExactGeluErf(long double v) {
  return v / 2 * std::erfc(-v * 0.70710678118654752440084436210484903928L);
}

struct Gelu {
  void (*in_place)(size_t, float*);
  void (*mul)(const float*, size_t, float*);
  float (*by_definition)(float, bool);
  long double (*exact)(long double);
};
constexpr Gelu kGelus[] = {
    {GeluTanh, GeluTanhMul, GeluTanhByDefinition, ExactGeluTanh},
    {GeluErf, GeluErfMul, GeluErfByDefinition, ExactGeluErf}};

TEST_P(ActivationsTest, GelusAreCloseToExact) {
  std::vector<float> v;
  for (float x = -14.5f; x < 14.5f; x += 0.000973f) v.push_back(x);
  for (double x = 1e-40; x < 1e38; x *= 1.37) {
    v.push_back(static_cast<float>(x));
    v.push_back(static_cast<float>(-x));
  }
  for (const Gelu& gelu : kGelus) {
    std::vector<float> got = v;
    gelu.in_place(got.size(), got.data());
    for (size_t i = 0; i < v.size(); ++i) {
      // Half of it is the result.
      if (FlushesDenormals() && std::fabs(v[i]) < 2 * kSmallestNormal) continue;
      const long double exact = gelu.exact(v[i]);
      const double error = static_cast<double>(std::fabs(got[i] - exact));
      const double magnitude = std::fabs(v[i]);
      // Denormals have an error of their own: half their step for each of
      // three operations.
      ASSERT_LE(error, 0x1p-22 * magnitude + 0x1.8p-149) << v[i];
      // Far below zero the argument of exp is off by one to three roundings of
      // itself; a result below the smallest normal number may be zero.
      const double exponent = std::fabs(std::log(
          std::fabs(static_cast<double>(exact)) / std::max(magnitude, 1e-300)));
      if (exponent > 86) continue;
      ASSERT_LE(error, (12 + 3 * exponent) * 0x1p-24 *
                               std::fabs(static_cast<double>(exact)) +
                           0x1.8p-149)
          << v[i] << " gives " << got[i];
    }
  }
}

// As the reference computes in float32: it cancels below zero, so the
// difference is relative to the argument.
TEST_P(ActivationsTest, GelusAreTheReferencesFormulasInFloat32) {
  for (float v = -12.0f; v < 12.0f; v += 0.00731f) {
    const float cubed = v * v * v;
    const float reference_tanh =
        0.5f * v *
        (1.0f + std::tanh(0.79788456080286535588f * (v + 0.044715f * cubed)));
    const float reference_erf =
        v * 0.5f * (1.0f + std::erf(v * 0.70710678118654752440f));
    float by_tanh = v, by_erf = v;
    GeluTanh(1, &by_tanh);
    GeluErf(1, &by_erf);
    ASSERT_NEAR(by_tanh, reference_tanh, 0x1p-21 * std::fabs(v)) << v;
    ASSERT_NEAR(by_erf, reference_erf, 0x1p-21 * std::fabs(v)) << v;
  }
}

TEST_P(ActivationsTest, GelusHoldAtTheEndsOfTheRange) {
  struct Case {
    float v, expected;
  };
  for (const Case& c :
       {Case{kMax, kMax}, Case{-kMax, -0.0f}, Case{0.0f, 0.0f},
        Case{-0.0f, -0.0f}, Case{1e5f, 1e5f}, Case{-1e5f, -0.0f},
        Case{1e20f, 1e20f}, Case{-1e20f, -0.0f}, Case{7e12f, 7e12f},
        Case{kInf, kInf}, Case{-kInf, kNaN}, Case{kNaN, kNaN}}) {
    for (const Gelu& gelu : kGelus) {
      std::vector<float> in_place(21, c.v);
      gelu.in_place(21, in_place.data());
      std::vector<float> gate(21, c.v);
      const std::vector<float> up(21, 1.0f);
      gelu.mul(up.data(), 21, gate.data());
      for (size_t i = 0; i < 21; ++i) {
        EXPECT_THAT(in_place[i], SameBits(c.expected)) << c.v;
        EXPECT_THAT(gate[i], SameBits(c.expected)) << c.v;
      }
    }
  }
}

TEST_P(ActivationsTest, GelusAreTheSameOperationsInEveryPlace) {
  for (const Gelu& gelu : kGelus) {
    for (const size_t n : Lengths()) {
      std::vector<float> v = RandomFloats(n, 31);
      for (float& value : v) value *= 3;
      const std::vector<float> up = RandomFloats(n, 32);
      Padded in_place(v, n % 17);
      gelu.in_place(n, in_place.data());
      Padded gate(v, n % 16), other(up, n % 5);
      gelu.mul(other.data(), n, gate.data());
      for (size_t i = 0; i < n; ++i) {
        const float expected = gelu.by_definition(v[i], IsFused());
        ASSERT_THAT(in_place.data()[i], SameBits(expected)) << n << " " << i;
        ASSERT_THAT(gate.data()[i], SameBits(expected * up[i]))
            << n << " " << i;
      }
      EXPECT_TRUE(in_place.NeighboursUntouched()) << n;
      EXPECT_TRUE(gate.NeighboursUntouched()) << n;
    }
  }
}

}  // namespace
}  // namespace lowmem
