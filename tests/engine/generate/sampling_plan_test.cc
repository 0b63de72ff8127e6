// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampling_plan.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;

SamplingOptions QwenDefaults() {
  SamplingOptions defaults;
  defaults.temperature = 0.7f;
  defaults.top_k = 20;
  defaults.top_p = 0.8f;
  defaults.repetition_penalty = 1.1f;
  return defaults;
}

TEST(SamplingPlanTest, NothingSetIsTheArgmaxOfTheRawLogits) {
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, PlanSampling({}, {}));
  EXPECT_EQ(plan.temperature, 0);
  EXPECT_FALSE(plan.penalties.active());
  EXPECT_EQ(plan.top_k, 0);
  EXPECT_EQ(plan.top_p, 1);
  EXPECT_EQ(plan.min_p, 0);
  EXPECT_EQ(plan.seed, 0);
}

TEST(SamplingPlanTest, UnsetFieldsComeFromTheModel) {
  SamplingOptions options;
  options.top_k = 5;
  options.seed = 9;
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan,
                       PlanSampling(options, QwenDefaults()));
  EXPECT_EQ(plan.temperature, 0.7f);
  EXPECT_EQ(plan.top_k, 5);
  EXPECT_EQ(plan.top_p, 0.8f);
  EXPECT_EQ(plan.penalties.repetition, 1.1f);
  EXPECT_EQ(plan.seed, 9);
}

TEST(SamplingPlanTest, AnExplicitNeutralValueTurnsADefaultOff) {
  SamplingOptions options;
  options.top_k = 0;
  options.top_p = 1.0f;
  options.repetition_penalty = 1.0f;
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan,
                       PlanSampling(options, QwenDefaults()));
  EXPECT_EQ(plan.top_k, 0);
  EXPECT_EQ(plan.top_p, 1);
  EXPECT_FALSE(plan.penalties.active());
}

TEST(SamplingPlanTest, TemperatureZeroDropsTheModelsPenalty) {
  SamplingOptions options;
  options.temperature = 0.0f;
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan,
                       PlanSampling(options, QwenDefaults()));
  EXPECT_FALSE(plan.penalties.active());
}

TEST(SamplingPlanTest, TemperatureZeroKeepsTheCallersPenalty) {
  SamplingOptions options;
  options.temperature = 0.0f;
  options.repetition_penalty = 1.3f;
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan,
                       PlanSampling(options, QwenDefaults()));
  EXPECT_EQ(plan.penalties.repetition, 1.3f);
}

TEST(SamplingPlanTest, AModelThatDoesNotSampleGivesNoPenaltyToTheArgmax) {
  SamplingOptions defaults;
  defaults.repetition_penalty = 1.1f;  // as of a file without do_sample
  ASSERT_OK_AND_ASSIGN(const SamplingPlan plan, PlanSampling({}, defaults));
  EXPECT_EQ(plan.temperature, 0);
  EXPECT_FALSE(plan.penalties.active());
}

TEST(SamplingPlanTest, ValuesOutOfRangeAreRefusedByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  struct Field {
    const char* name;
    std::optional<float> SamplingOptions::*member;
    std::vector<float> refused;
    std::vector<float> accepted;
  };
  const Field fields[] = {
      {"temperature", &SamplingOptions::temperature, {-0.1f, 100.5f}, {0, 100}},
      {"top_p", &SamplingOptions::top_p, {0, -1, 1.01f}, {1e-6f, 1}},
      {"min_p", &SamplingOptions::min_p, {-0.1f, 1.1f}, {0, 1}},
      {"repetition_penalty",
       &SamplingOptions::repetition_penalty,
       {0, -1, 0.001f, 101},
       {0.01f, 100}},
      {"presence_penalty",
       &SamplingOptions::presence_penalty,
       {-101, 101},
       {-100, 100}},
      {"frequency_penalty",
       &SamplingOptions::frequency_penalty,
       {-101, 101},
       {-100, 100}},
  };
  for (const Field& field : fields) {
    std::vector<float> refused = field.refused;
    refused.insert(refused.end(), {nan, infinity, -infinity});
    for (float value : refused) {
      SamplingOptions options;
      options.*field.member = value;
      EXPECT_THAT(PlanSampling(options, {}),
                  Fails(absl::StatusCode::kInvalidArgument,
                        std::string(field.name) + ": out of range"))
          << value;
    }
    for (float value : field.accepted) {
      SamplingOptions options;
      options.*field.member = value;
      EXPECT_THAT(PlanSampling(options, {}), testing::IsOk())
          << field.name << " " << value;
    }
  }
}

}  // namespace
}  // namespace lowmem
