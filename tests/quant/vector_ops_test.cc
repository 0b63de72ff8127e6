// SPDX-License-Identifier: Apache-2.0
// Sums are compared by bits with the documented order; exp, sine and cosine
// with libm in long double. What must not depend on the target is compared
// between targets.
#include "quant/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::ChooseTargets;
using ::lowmem::testing::IsFusedTarget;
using ::lowmem::testing::LaneDot;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;
using ::lowmem::testing::SumLanes;
using ::testing::ElementsAreArray;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::vector<size_t> Lengths() {
  std::vector<size_t> lengths = {127, 128, 129, 576, 896, 4864};
  for (size_t n = 1; n <= 70; ++n) lengths.push_back(n);
  return lengths;
}

// Distance from the exact value, in units of the last place of its float.
double UlpsFrom(long double exact, float value) {
  const float nearest = static_cast<float>(exact);
  const long double ulp =
      std::nextafter(std::fabs(nearest), kInf) - std::fabs(nearest);
  return static_cast<double>(std::fabs(exact - value) / ulp);
}

// The engine's exp for x <= 0 in plain code: its operations one by one.
float ExpByDefinition(float x, bool fused) {
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

// A copy at an offset of `shift` bytes beyond an alignment of 64, between
// values that must stay.
class Misaligned {
 public:
  Misaligned(const std::vector<float>& values, size_t shift)
      : size_(values.size()),
        floats_(values.size() + 2 * kRoom + 16, kSentinel) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(floats_.data());
    ofs_ =
        kRoom + (64 - base % 64) % 64 / sizeof(float) + shift / sizeof(float);
    std::copy(values.begin(), values.end(), data());
  }
  float* data() { return floats_.data() + ofs_; }
  std::vector<float> values() { return {data(), data() + size_}; }
  bool NeighboursUntouched() const {
    for (size_t i = 0; i < floats_.size(); ++i) {
      const bool inside = i >= ofs_ && i < ofs_ + size_;
      if (!inside && floats_[i] != kSentinel) return false;
    }
    return true;
  }

 private:
  static constexpr float kSentinel = -12345.0f;
  static constexpr size_t kRoom = 4;
  size_t size_;
  std::vector<float> floats_;
  size_t ofs_ = 0;
};

class VectorOpsTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(VectorOpsTest);

TEST_P(VectorOpsTest, RmsNormSumsInTheLaneOrder) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, 1);
    const std::vector<float> weight = RandomFloats(n, 2);
    const float mean =
        LaneDot(x.data(), x.data(), n, IsFused()) / static_cast<float>(n);
    const float factor = 1.0f / std::sqrt(mean + 1e-5f);
    Misaligned out(std::vector<float>(n), 4 * (n % 4));
    RmsNorm(x.data(), weight.data(), 1e-5f, n, out.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_THAT(out.values()[i], SameBits(x[i] * factor * weight[i]))
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

TEST_P(VectorOpsTest, AddAndScaleAddTouchEveryElementAndNoOther) {
  for (const size_t n : Lengths()) {
    const std::vector<float> a = RandomFloats(n, 3);
    const std::vector<float> b = RandomFloats(n, 4);
    Misaligned sum(a, 4 * (n % 5));
    AddInPlace(b.data(), n, sum.data());
    Misaligned scaled(a, 4 * (n % 3));
    ScaleAdd(0.3f, b.data(), n, scaled.data());
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

TEST_P(VectorOpsTest, SiluMulIsWithinThreeUlps) {
  std::vector<float> v;
  for (float x = -86.0f; x < 90.0f; x += 0.00737f) v.push_back(x);
  for (float x = 1e-40f; x < 1e38f; x *= 3.7f) v.push_back(x);
  for (float x = 1e-40f; x < 80.0f; x *= 3.7f) v.push_back(-x);
  std::vector<float> gate = v;
  const std::vector<float> up(v.size(), 1.0f);
  SiluMul(up.data(), v.size(), gate.data());
  for (size_t i = 0; i < v.size(); ++i) {
    const long double exact =
        v[i] / (1.0L + std::exp(-static_cast<long double>(v[i])));
    const double ulps = UlpsFrom(exact, gate[i]);
    ASSERT_LE(ulps, 3.0) << v[i] << " gives " << gate[i];
  }
}

TEST_P(VectorOpsTest, SiluMulHoldsAtTheEndsOfTheRange) {
  struct Case {
    float gate;
    float up;
    float expected;
  };
  const Case cases[] = {
      {kMax, 1.0f, kMax},     {-kMax, 1.0f, -0.0f},   {1e5f, 2.0f, 2e5f},
      {-1e5f, 2.0f, -0.0f},   {0.0f, 3.0f, 0.0f},     {-0.0f, 3.0f, -0.0f},
      {104.5f, 1.0f, 104.5f}, {-200.0f, 1.0f, -0.0f}, {kInf, 1.0f, kInf},
      {kNaN, 1.0f, kNaN},     {1.0f, kNaN, kNaN},     {kMax, 2.0f, kInf}};
  for (const Case& c : cases) {
    std::vector<float> gate(21, c.gate);
    const std::vector<float> up(21, c.up);
    SiluMul(up.data(), gate.size(), gate.data());
    for (const float value : gate) {
      EXPECT_THAT(value, SameBits(c.expected)) << c.gate << " " << c.up;
    }
  }
}

TEST_P(VectorOpsTest, SiluMulIsTheSameOperationsInEveryPlace) {
  for (const size_t n : Lengths()) {
    const std::vector<float> v = RandomFloats(n, 5);
    const std::vector<float> up = RandomFloats(n, 6);
    Misaligned gate(v, 4 * (n % 7));
    SiluMul(up.data(), n, gate.data());
    for (size_t i = 0; i < n; ++i) {
      const float e = ExpByDefinition(-std::fabs(v[i]), IsFused());
      const float silu = (v[i] < 0 ? v[i] * e : v[i]) / (1.0f + e);
      ASSERT_THAT(gate.values()[i], SameBits(silu * up[i])) << n << " " << i;
    }
    EXPECT_TRUE(gate.NeighboursUntouched()) << n;
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
    Misaligned out(x, 4 * (n % 4));
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

  for (const size_t place : {size_t{0}, size_t{18}}) {
    std::vector<float> with_nan(19, 1.0f);
    with_nan[place] = kNaN;
    Softmax(with_nan.size(), with_nan.data());
    for (const float value : with_nan) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(VectorOpsTest, RopeRotatesPairsOfBothLayouts) {
  for (size_t num_pairs = 1; num_pairs <= 70; ++num_pairs) {
    const std::vector<float> head = RandomFloats(2 * num_pairs, 9);
    const std::vector<float> cos = RandomFloats(num_pairs, 10);
    const std::vector<float> sin = RandomFloats(num_pairs, 11);
    Misaligned halves(head, 4 * (num_pairs % 4));
    RopeHalves(cos.data(), sin.data(), num_pairs, halves.data());
    Misaligned neighbours(head, 4 * (num_pairs % 4));
    RopeNeighbours(cos.data(), sin.data(), num_pairs, neighbours.data());
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

TEST_P(VectorOpsTest, ArgMaxFindsTheFirstOfEquals) {
  for (const size_t n : Lengths()) {
    for (const size_t place : {size_t{0}, n / 3, n / 2, n - 1}) {
      std::vector<float> x(n, -7.0f);
      x[place] = -6.5f;
      x[n - 1] = -6.5f;
      EXPECT_EQ(ArgMax(x.data(), n), place) << n;
    }
  }
}

TEST_P(VectorOpsTest, ArgMaxPassesOverNaN) {
  struct Case {
    std::vector<float> values;
    size_t expected;
  };
  const Case cases[] = {{{kNaN, 1.0f, kNaN, 2.0f}, 3},
                        {{kNaN, -kInf}, 1},
                        {{kNaN, kNaN}, 0},
                        {{-kInf, -kInf}, 0},
                        {{1.0f, kInf, kInf}, 1},
                        {{-0.0f, 0.0f}, 0},
                        {{kNaN}, 0}};
  for (const Case& c : cases) {
    EXPECT_EQ(ArgMax(c.values.data(), c.values.size()), c.expected);
    // The same far into a long vector.
    std::vector<float> padded(40, kNaN);
    padded.insert(padded.end(), c.values.begin(), c.values.end());
    if (!std::isnan(c.values[c.expected])) {
      EXPECT_EQ(ArgMax(padded.data(), padded.size()), 40 + c.expected);
    }
  }
}

TEST_P(VectorOpsTest, AllFiniteSeesEveryElement) {
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<float> x(n, kMax);
    EXPECT_TRUE(AllFinite(x.data(), n));
    for (size_t i = 0; i < n; ++i) {
      for (const float bad : {kInf, -kInf, kNaN}) {
        x[i] = bad;
        EXPECT_FALSE(AllFinite(x.data(), n)) << n << " " << i;
      }
      x[i] = -std::numeric_limits<float>::denorm_min();
    }
    EXPECT_TRUE(AllFinite(x.data(), n));
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

// exp has no reference by bits, so the targets are compared with one another.
TEST(VectorOpsTargetsTest, FusedTargetsAgreeByBits) {
  std::vector<float> x;
  for (float v = -110.0f; v < 110.0f; v += 0.0123f) x.push_back(v);
  for (float v = 1e-44f; v < 1e38f; v *= 1.7f) {
    x.push_back(v);
    x.push_back(-v);
  }
  const std::vector<float> up(x.size(), 1.25f);
  std::vector<std::vector<float>> silus, softmaxes;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (!IsFusedTarget(target)) continue;
    ChooseTargets(target);
    silus.push_back(x);
    SiluMul(up.data(), x.size(), silus.back().data());
    softmaxes.emplace_back(x.begin(), x.begin() + 10000);
    Softmax(softmaxes.back().size(), softmaxes.back().data());
    ChooseTargets(0);
  }
  if (silus.size() < 2) GTEST_SKIP() << "this processor has one such target";
  for (size_t t = 1; t < silus.size(); ++t) {
    EXPECT_EQ(std::memcmp(silus[0].data(), silus[t].data(), 4 * x.size()), 0);
    EXPECT_EQ(std::memcmp(softmaxes[0].data(), softmaxes[t].data(),
                          4 * softmaxes[0].size()),
              0);
  }
}

}  // namespace
}  // namespace lowmem
