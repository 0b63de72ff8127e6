// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/llama3_rope_recovery.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem {
namespace {

// The divisors as llama.cpp's converter writes them: float32, a number divided
// by a tensor taken as its reciprocal times the number.
std::vector<float> Divisors(const Llama3Scaling& scaling, float theta,
                            size_t num_pairs) {
  std::vector<float> divisors;
  for (size_t i = 0; i < num_pairs; ++i) {
    const float inv_freq =
        1.0f /
        std::pow(theta, static_cast<float>(i) / static_cast<float>(num_pairs));
    const float wavelength = 1.0f / inv_freq * 6.2831855f;
    const auto original =
        static_cast<float>(scaling.original_max_position_embeddings);
    const auto low = static_cast<float>(scaling.low_freq_factor);
    const auto high = static_cast<float>(scaling.high_freq_factor);
    const auto factor = static_cast<float>(scaling.factor);
    if (wavelength < original / high) {
      divisors.push_back(1.0f);
    } else if (wavelength > original / low) {
      divisors.push_back(factor);
    } else {
      const float smooth = (1.0f / wavelength * original - low) / (high - low);
      divisors.push_back(1.0f / ((1.0f - smooth) / factor + smooth));
    }
  }
  return divisors;
}

struct ScalingCase {
  const char* name;
  Llama3Scaling scaling;
  float theta;
  size_t num_pairs;
};
void PrintTo(const ScalingCase& c, std::ostream* out) { *out << c.name; }

class Llama3RopeRecovery : public ::testing::TestWithParam<ScalingCase> {};

TEST_P(Llama3RopeRecovery, FindsTheParameters) {
  const ScalingCase& c = GetParam();
  const std::vector<float> divisors = Divisors(c.scaling, c.theta, c.num_pairs);
  const auto found = RecoverLlama3Scaling(divisors, c.theta);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->factor, c.scaling.factor);
  EXPECT_EQ(found->low_freq_factor, c.scaling.low_freq_factor);
  EXPECT_EQ(found->high_freq_factor, c.scaling.high_freq_factor);
  EXPECT_EQ(found->original_max_position_embeddings,
            c.scaling.original_max_position_embeddings);
}

INSTANTIATE_TEST_SUITE_P(
    All, Llama3RopeRecovery,
    ::testing::Values(ScalingCase{"Llama31", {8, 1, 4, 8192}, 500000, 64},
                      ScalingCase{"Llama32", {32, 1, 4, 8192}, 500000, 32},
                      ScalingCase{"Llama32Of3B", {32, 1, 4, 8192}, 500000, 64},
                      ScalingCase{"OtherLength", {8, 1, 4, 4096}, 500000, 64},
                      ScalingCase{"NoPowerOfTwo", {8, 1, 4, 10000}, 10000, 64},
                      ScalingCase{"OtherFactor", {5.5, 1, 4, 8192}, 500000, 64},
                      ScalingCase{"OtherRamp", {16, 1, 7, 2048}, 100000, 64},
                      ScalingCase{"SmallHead", {8, 1, 4, 72}, 12000, 8}),
    [](const ::testing::TestParamInfo<ScalingCase>& row) {
      return row.param.name;
    });

TEST(Llama3RopeRecoveryTest, EquivalentParametersReproduceTheDivisors) {
  // Length, low and high times two give the same divisors: any such answer will
  // do.
  const std::vector<float> divisors = Divisors({8, 2, 8, 16384}, 500000, 64);
  const auto found = RecoverLlama3Scaling(divisors, 500000);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(ReproducesDivisors(*found, divisors, 500000));
}

TEST(Llama3RopeRecoveryTest, OtherDivisorsAreNotExplained) {
  std::vector<float> divisors = Divisors({8, 1, 4, 8192}, 500000, 64);
  for (size_t i = 0; i < divisors.size(); ++i) {
    for (const float change : {1.0001f, 0.9999f, 0.0f, -1.0f,
                               std::numeric_limits<float>::quiet_NaN(),
                               std::numeric_limits<float>::infinity()}) {
      std::vector<float> changed = divisors;
      changed[i] *= change;
      EXPECT_FALSE(RecoverLlama3Scaling(changed, 500000).has_value())
          << i << " times " << change;
    }
  }
}

TEST(Llama3RopeRecoveryTest, OtherThetaIsNotExplained) {
  const std::vector<float> divisors = Divisors({8, 1, 4, 8192}, 500000, 64);
  EXPECT_FALSE(ReproducesDivisors({8, 1, 4, 8192}, divisors, 500001));
}

TEST(Llama3RopeRecoveryTest, LongRopeFactorsAreNotExplained) {
  std::vector<float> divisors;
  for (int i = 0; i < 48; ++i) divisors.push_back(1.0f + 0.37f * i);
  EXPECT_FALSE(RecoverLlama3Scaling(divisors, 10000).has_value());
}

TEST(Llama3RopeRecoveryTest, BareStepIsExplainedOnlyWhereOneExists) {
  // Two pairs are too far apart for anything between them.
  const std::vector<float> step = {1.0f, 8.0f};
  const auto found = RecoverLlama3Scaling(step, 1e8);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(ReproducesDivisors(*found, step, 1e8));
}

}  // namespace
}  // namespace lowmem
