// SPDX-License-Identifier: Apache-2.0
// Sums are compared by bits with the documented order; exp, sine and cosine
// with libm in long double.
#include "quant/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/vector_reference.h"
#include "tests/support/sha256.h"

namespace lowmem {
namespace {

using ::lowmem::testing::ChooseTargets;
using ::lowmem::testing::ExpByDefinition;
using ::lowmem::testing::FlushesDenormals;
using ::lowmem::testing::IsFusedTarget;
using ::lowmem::testing::kInf;
using ::lowmem::testing::kMax;
using ::lowmem::testing::kNaN;
using ::lowmem::testing::LaneDot;
using ::lowmem::testing::Lengths;
using ::lowmem::testing::Padded;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;
using ::lowmem::testing::Sha256;
using ::lowmem::testing::SumLanes;
using ::lowmem::testing::TestedTargets;
using ::lowmem::testing::UlpsFrom;
using ::testing::ElementsAreArray;

class VectorOpsTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(VectorOpsTest);

TEST_P(VectorOpsTest, RmsNormSumsInTheLaneOrder) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, 1);
    const std::vector<float> weight = RandomFloats(n, 2);
    const float mean =
        LaneDot(x.data(), x.data(), n, IsFused()) / static_cast<float>(n);
    const float factor = 1.0f / std::sqrt(mean + 1e-5f);
    Padded in(x, n % 5), scale(weight, n % 3);
    Padded out(std::vector<float>(n), n % 17);
    RmsNorm(in.data(), scale.data(), 1e-5f, n, out.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_THAT(out.data()[i], SameBits(x[i] * factor * weight[i]))
          << "n " << n << " i " << i;
    }
    EXPECT_TRUE(out.NeighboursUntouched()) << n;
  }
}

TEST_P(VectorOpsTest, RmsNormWorksInPlaceAndOnLargeResiduals) {
  std::vector<float> x(100, 1e5f);
  const std::vector<float> weight(100, 2.0f);
  RmsNorm(x.data(), weight.data(), 1e-6f, 100, x.data());
  for (const float value : x) EXPECT_NEAR(value, 2.0f, 1e-6f);
}

TEST_P(VectorOpsTest, RmsNormOfZerosIsZero) {
  std::vector<float> x(20, 0.0f);
  const std::vector<float> weight(20, 2.0f);
  RmsNorm(x.data(), weight.data(), 1e-6f, 20, x.data());
  EXPECT_THAT(x, ::testing::Each(0.0f));
}

// The definition with sums in the lanes' order.
std::vector<float> LayerNormByDefinition(const std::vector<float>& x,
                                         const std::vector<float>& weight,
                                         const std::vector<float>* bias,
                                         float epsilon, bool fused) {
  const size_t n = x.size();
  float lanes[16] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % 16] += x[i];
  const float mean = SumLanes(lanes) / static_cast<float>(n);
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = x[i] - mean;
  const float variance =
      LaneDot(out.data(), out.data(), n, fused) / static_cast<float>(n);
  const float factor = 1.0f / std::sqrt(variance + epsilon);
  for (size_t i = 0; i < n; ++i) {
    const float scaled = out[i] * factor;
    if (bias == nullptr) {
      out[i] = scaled * weight[i];
    } else {
      out[i] = fused ? std::fma(scaled, weight[i], (*bias)[i])
                     : scaled * weight[i] + (*bias)[i];
    }
  }
  return out;
}

TEST_P(VectorOpsTest, LayerNormSumsInTheLaneOrder) {
  for (const size_t n : Lengths()) {
    std::vector<float> x = RandomFloats(n, 21);
    for (float& value : x) value += 3;
    const std::vector<float> weight = RandomFloats(n, 22);
    const std::vector<float> bias = RandomFloats(n, 23);
    Padded in(x, n % 5), scale(weight, n % 3), shift(bias, n % 7);
    for (const bool has_bias : {false, true}) {
      const std::vector<float> expected = LayerNormByDefinition(
          x, weight, has_bias ? &bias : nullptr, 1e-5f, IsFused());
      Padded out(std::vector<float>(n), n % 17);
      LayerNorm(in.data(), scale.data(), has_bias ? shift.data() : nullptr,
                1e-5f, n, out.data());
      Padded in_place(x, n % 17);
      LayerNorm(in_place.data(), scale.data(),
                has_bias ? shift.data() : nullptr, 1e-5f, n, in_place.data());
      for (size_t i = 0; i < n; ++i) {
        ASSERT_THAT(out.data()[i], SameBits(expected[i])) << n << " " << i;
        ASSERT_THAT(in_place.data()[i], SameBits(expected[i])) << n << " " << i;
      }
      EXPECT_TRUE(out.NeighboursUntouched()) << n;
      EXPECT_TRUE(in_place.NeighboursUntouched()) << n;
    }
  }
}

TEST_P(VectorOpsTest, LayerNormIsCloseToExact) {
  // An offset of many deviations: a variance as the difference of two large
  // numbers would have no digits left.
  for (const float offset : {0.0f, -2.0f, 1000.0f}) {
    for (const size_t n : {size_t{384}, size_t{1024}, size_t{4864}}) {
      std::vector<float> x = RandomFloats(n, 24);
      for (float& value : x) value += offset;
      const std::vector<float> weight = RandomFloats(n, 25);
      const std::vector<float> bias = RandomFloats(n, 26);
      double mean = 0, variance = 0;
      for (const float value : x) mean += value;
      mean /= static_cast<double>(n);
      for (const float value : x) variance += (value - mean) * (value - mean);
      variance /= static_cast<double>(n);
      std::vector<float> out(n);
      LayerNorm(x.data(), weight.data(), bias.data(), 1e-12f, n, out.data());
      for (size_t i = 0; i < n; ++i) {
        const double exact =
            (x[i] - mean) / std::sqrt(variance + 1e-12) * weight[i] + bias[i];
        // The mean is off by a few roundings of the offset, the rest is a few
        // of the result.
        const double tolerance = 0x1p-22 * std::fabs(offset * weight[i]) +
                                 0x1p-20 * (std::fabs(exact) + 1);
        ASSERT_NEAR(out[i], exact, tolerance) << offset << " " << n;
      }
    }
  }
}

TEST_P(VectorOpsTest, LayerNormOfEqualNumbersIsTheBias) {
  const std::vector<float> x(50, 3.0f);
  const std::vector<float> weight(50, 2.0f);
  const std::vector<float> bias = RandomFloats(50, 27);
  std::vector<float> out(50);
  LayerNorm(x.data(), weight.data(), bias.data(), 1e-12f, 50, out.data());
  EXPECT_EQ(out, bias);
}

TEST_P(VectorOpsTest, AddAndScaleAddTouchEveryElementAndNoOther) {
  for (const size_t n : Lengths()) {
    const std::vector<float> a = RandomFloats(n, 3);
    const std::vector<float> b = RandomFloats(n, 4);
    Padded addend(b, n % 5);
    Padded sum(a, n % 17);
    AddInPlace(addend.data(), n, sum.data());
    Padded scaled(a, n % 16);
    ScaleAdd(0.3f, addend.data(), n, scaled.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_THAT(sum.values()[i], SameBits(a[i] + b[i]));
      const float expected =
          IsFused() ? std::fma(0.3f, b[i], a[i]) : 0.3f * b[i] + a[i];
      ASSERT_THAT(scaled.values()[i], SameBits(expected));
    }
    EXPECT_TRUE(sum.NeighboursUntouched()) << n;
    EXPECT_TRUE(scaled.NeighboursUntouched()) << n;
  }
}

TEST_P(VectorOpsTest, SoftmaxIsCloseToExactAndSumsToOne) {
  for (const size_t n : Lengths()) {
    std::vector<float> x = RandomFloats(n, 7);
    for (float& value : x) value *= 4;
    const float largest = *std::max_element(x.begin(), x.end());
    long double sum = 0;
    for (const float value : x) {
      sum += std::exp(static_cast<long double>(value - largest));
    }
    Padded out(x, n % 17);
    Softmax(n, out.data());
    for (size_t i = 0; i < n; ++i) {
      const long double exact =
          std::exp(static_cast<long double>(x[i] - largest)) / sum;
      // 2 of exp, 1 of the division, and one at most for each step of the sum.
      ASSERT_LE(UlpsFrom(exact, out.values()[i]), 7.0 + n / 16.0)
          << n << " " << i;
    }
    EXPECT_TRUE(out.NeighboursUntouched()) << n;
  }
}

TEST_P(VectorOpsTest, SoftmaxSumsInTheLaneOrder) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, 8);
    const float largest = *std::max_element(x.begin(), x.end());
    std::vector<float> expected(n);
    float lanes[16] = {};
    for (size_t i = 0; i < n; ++i) {
      expected[i] = ExpByDefinition(x[i] - largest, IsFused());
      lanes[i % 16] += expected[i];
    }
    const float sum = SumLanes(lanes);
    std::vector<float> got = x;
    Softmax(n, got.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_THAT(got[i], SameBits(expected[i] / sum)) << n << " " << i;
    }
  }
}

TEST_P(VectorOpsTest, SoftmaxHoldsAtTheEndsOfTheRange) {
  std::vector<float> far = {0.0f, -kMax, -88.0f, -104.0f, -kInf};
  Softmax(far.size(), far.data());
  EXPECT_THAT(far, ElementsAreArray({1.0f, 0.0f, 0.0f, 0.0f, 0.0f}));

  std::vector<float> large(37, kMax);
  Softmax(large.size(), large.data());
  EXPECT_THAT(large, ::testing::Each(1.0f / 37));

  std::vector<float> one = {-kMax};
  Softmax(1, one.data());
  EXPECT_EQ(one[0], 1.0f);

  for (const float bad : {kNaN, kInf}) {
    for (const size_t place : {size_t{0}, size_t{18}}) {
      std::vector<float> with_bad(19, 1.0f);
      with_bad[place] = bad;
      Softmax(with_bad.size(), with_bad.data());
      for (const float value : with_bad) EXPECT_TRUE(std::isnan(value));
    }
  }
  std::vector<float> none(5, -kInf);
  Softmax(none.size(), none.data());
  for (const float value : none) EXPECT_TRUE(std::isnan(value));
}

TEST_P(VectorOpsTest, RopeRotatesPairsOfBothLayouts) {
  for (size_t num_pairs = 1; num_pairs <= 70; ++num_pairs) {
    const std::vector<float> head = RandomFloats(2 * num_pairs, 9);
    const std::vector<float> cos = RandomFloats(num_pairs, 10);
    const std::vector<float> sin = RandomFloats(num_pairs, 11);
    Padded c(cos, num_pairs % 5), s(sin, num_pairs % 3);
    Padded halves(head, num_pairs % 17);
    RopeHalves(c.data(), s.data(), num_pairs, halves.data());
    Padded neighbours(head, num_pairs % 17);
    RopeNeighbours(c.data(), s.data(), num_pairs, neighbours.data());
    const auto rotate = [&](float a, float b, size_t i) {
      if (!IsFused()) {
        return std::pair(a * cos[i] - b * sin[i], b * cos[i] + a * sin[i]);
      }
      return std::pair(std::fma(-b, sin[i], a * cos[i]),
                       std::fma(a, sin[i], b * cos[i]));
    };
    for (size_t i = 0; i < num_pairs; ++i) {
      const auto [h0, h1] = rotate(head[i], head[i + num_pairs], i);
      ASSERT_THAT(halves.values()[i], SameBits(h0)) << num_pairs << " " << i;
      ASSERT_THAT(halves.values()[i + num_pairs], SameBits(h1));
      const auto [n0, n1] = rotate(head[2 * i], head[2 * i + 1], i);
      ASSERT_THAT(neighbours.values()[2 * i], SameBits(n0));
      ASSERT_THAT(neighbours.values()[2 * i + 1], SameBits(n1));
    }
    EXPECT_TRUE(halves.NeighboursUntouched());
    EXPECT_TRUE(neighbours.NeighboursUntouched());
  }
}

TEST(RopeAnglesTest, AreWithinOneUlpOfTheFloatProductsSineAndCosine) {
  std::vector<float> inv_freq;
  for (int i = 0; i < 64; ++i) {
    inv_freq.push_back(1.0f / std::pow(1e6f, static_cast<float>(i) / 64));
  }
  std::vector<float> cos(inv_freq.size()), sin(inv_freq.size());
  for (const float position : {0.0f, 1.0f, 2.0f, 11.0f, 670.0f, 4095.0f,
                               32767.0f, 131071.0f, 1048575.0f, 16777215.0f}) {
    RopeAngles(position, inv_freq.data(), inv_freq.size(), 1.0f, cos.data(),
               sin.data());
    for (size_t i = 0; i < inv_freq.size(); ++i) {
      const long double angle = position * inv_freq[i];
      EXPECT_LE(UlpsFrom(std::cos(angle), cos[i]), 0.51)
          << position << " " << i;
      EXPECT_LE(UlpsFrom(std::sin(angle), sin[i]), 0.51)
          << position << " " << i;
    }
  }
}

TEST(RopeAnglesTest, CoversEveryQuadrantAndItsBorders) {
  for (int quarter = 0; quarter < 1000; ++quarter) {
    const float border = static_cast<float>(quarter * 1.5707963267948966);
    for (const float angle :
         {border, std::nextafter(border, kMax), std::nextafter(border, 0.0f)}) {
      float cos, sin;
      RopeAngles(1.0f, &angle, 1, 1.0f, &cos, &sin);
      EXPECT_LE(UlpsFrom(std::cos(static_cast<long double>(angle)), cos), 0.51)
          << angle;
      EXPECT_LE(UlpsFrom(std::sin(static_cast<long double>(angle)), sin), 0.51)
          << angle;
    }
  }
}

TEST(RopeAnglesTest, ScaleMultipliesBoth) {
  const float inv_freq = 0.25f;
  float cos, sin, scaled_cos, scaled_sin;
  RopeAngles(3.0f, &inv_freq, 1, 1.0f, &cos, &sin);
  RopeAngles(3.0f, &inv_freq, 1, 1.3f, &scaled_cos, &scaled_sin);
  EXPECT_EQ(scaled_cos, cos * 1.3f);
  EXPECT_EQ(scaled_sin, sin * 1.3f);
}

// exp has no reference by bits, so what depends on it is compared with what the
// targets of x86 with fused multiply-add gave, when all of them were one.
TEST(VectorOpsTargetsTest, FusedTargetsAgreeByBits) {
  constexpr char kHash[] =
      "78115b1b1dedc76bb7c6ec081af89f4c60f05170b6072a0bc7334687f6155014";
  std::vector<float> x;
  for (float v = -110.0f; v < 110.0f; v += 0.0123f) x.push_back(v);
  for (float v = 1e-44f; v < 1e38f; v *= 1.7f) {
    x.push_back(v);
    x.push_back(-v);
  }
  const std::vector<float> up(x.size(), 1.25f);
  const std::vector<float> weight(x.size(), 0.75f);
  size_t num_compared = 0;
  for (const int64_t target : TestedTargets()) {
    if (!IsFusedTarget(target) || FlushesDenormals(target)) continue;
    ChooseTargets(target);
    Sha256 hash;
    const auto keep = [&](auto operation) {
      std::vector<float> values = x;
      operation(values);
      hash.Update(reinterpret_cast<const uint8_t*>(values.data()),
                  sizeof(float) * values.size());
    };
    keep([&](auto& v) { SiluMul(up.data(), v.size(), v.data()); });
    keep([&](auto& v) { GeluTanh(v.size(), v.data()); });
    keep([&](auto& v) { GeluTanhMul(up.data(), v.size(), v.data()); });
    keep([&](auto& v) { GeluErf(v.size(), v.data()); });
    keep([&](auto& v) { GeluErfMul(up.data(), v.size(), v.data()); });
    keep([&](auto& v) { Softmax(10000, v.data()); });
    keep([&](auto& v) {
      LayerNorm(v.data(), weight.data(), up.data(), 1e-5f, 10000, v.data());
    });
    EXPECT_EQ(hash.Finish(), kHash) << hwy::TargetName(target);
    ++num_compared;
    ChooseTargets(0);
  }
  if (num_compared == 0) GTEST_SKIP() << "this processor has no such target";
}

}  // namespace
}  // namespace lowmem
