// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/rope.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace lowmem::testing {
namespace {

// Four units in the last place: the reference below rounds once, the code under
// test up to five times.
constexpr double kRelativeTolerance = 4.8e-7;

std::vector<double> Unscaled(double theta, uint32_t head_dim) {
  std::vector<double> inv_freq(head_dim / 2);
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    // The exponent's own rounding counts: ln(theta) * 2^-24 is up to 1e-6.
    const double exponent =
        static_cast<float>(2 * i) / static_cast<float>(head_dim);
    inv_freq[i] = 1.0 / std::pow(theta, exponent);
  }
  return inv_freq;
}

void ExpectClose(const std::vector<float>& actual,
                 const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], expected[i] * kRelativeTolerance) << i;
  }
}

TEST(InverseFrequenciesTest, PowersOfTheta) {
  for (const double theta : {10000.0, 12000.0, 500000.0, 1e6, 2.0}) {
    for (const uint32_t head_dim : {2u, 16u, 18u, 64u, 128u}) {
      ExpectClose(InverseFrequencies({.theta = theta}, head_dim),
                  Unscaled(theta, head_dim));
    }
  }
}

// As the reference has it: one rounding after the power and one after the
// division. A single one at the end would give other last bits.
TEST(InverseFrequenciesTest, EachStepIsRoundedToFloat32) {
  const std::vector<float> inv_freq =
      InverseFrequencies({.theta = 10000.0}, 64);
  size_t num_otherwise = 0;
  for (size_t i = 0; i < inv_freq.size(); ++i) {
    const double power = std::pow(10000.0, i / 32.0);  // an exact exponent
    EXPECT_EQ(inv_freq[i], 1.0f / static_cast<float>(power)) << i;
    if (inv_freq[i] != static_cast<float>(1.0 / power)) ++num_otherwise;
  }
  EXPECT_GT(num_otherwise, 0u);
}

TEST(InverseFrequenciesTest, LinearDividesAll) {
  const RopeConfig rope = {
      .theta = 100000.0, .scaling = RopeScaling::kLinear, .factor = 4.0};
  std::vector<double> expected = Unscaled(100000.0, 18);
  for (double& value : expected) value /= 4.0;
  ExpectClose(InverseFrequencies(rope, 18), expected);
}

TEST(InverseFrequenciesTest, Llama3KeepsBlendsAndDivides) {
  // Llama 3.1 8B.
  const RopeConfig rope = {.theta = 500000.0,
                           .scaling = RopeScaling::kLlama3,
                           .factor = 8.0,
                           .low_freq_factor = 1.0,
                           .high_freq_factor = 4.0,
                           .original_max_position_embeddings = 8192};
  std::vector<double> expected = Unscaled(500000.0, 128);
  size_t num_kept = 0, num_blended = 0, num_divided = 0;
  for (double& value : expected) {
    const double turns = 8192 * value / (2 * M_PI);  // in the original context
    if (turns > 4.0) {
      ++num_kept;
    } else if (turns < 1.0) {
      ++num_divided;
      value /= 8.0;
    } else {
      ++num_blended;
      const double smooth = (turns - 1.0) / 3.0;
      value = (1 - smooth) * value / 8.0 + smooth * value;
    }
  }
  EXPECT_EQ(num_kept + num_blended + num_divided, 64u);
  EXPECT_EQ(num_kept, 29u);
  EXPECT_EQ(num_blended, 6u);
  const std::vector<float> actual = InverseFrequencies(rope, 128);
  const std::vector<float> unscaled =
      InverseFrequencies({.theta = 500000.0}, 128);
  ExpectClose(actual, expected);
  for (size_t i = 0; i < num_kept; ++i) EXPECT_EQ(actual[i], unscaled[i]);
  for (size_t i = 64 - num_divided; i < 64; ++i) {
    EXPECT_EQ(actual[i], unscaled[i] / 8.0f);
  }
}

TEST(InverseFrequenciesTest, DivisorsOfTheFile) {
  const RopeConfig rope = {.frequency_divisors = {1.0f, 2.0f, 8.0f}};
  const std::vector<float> unscaled = InverseFrequencies({}, 6);
  const std::vector<float> actual = InverseFrequencies(rope, 6);
  EXPECT_EQ(actual[0], unscaled[0]);
  EXPECT_EQ(actual[1], unscaled[1] / 2.0f);
  EXPECT_EQ(actual[2], unscaled[2] / 8.0f);
}

}  // namespace
}  // namespace lowmem::testing
