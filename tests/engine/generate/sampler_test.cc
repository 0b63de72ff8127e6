// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/generate/sampler_reference.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::Each;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class SamplerTest : public ::testing::Test {
 protected:
  // Tokens drawn at positions 0 .. num_draws - 1 from the same logits.
  std::vector<int32_t> Draw(const SamplingPlan& plan,
                            const std::vector<float>& logits, int num_draws) {
    absl::StatusOr<SamplerBuffers> buffers =
        SamplerBuffers::Create(static_cast<uint32_t>(logits.size()), account_);
    EXPECT_THAT(buffers, testing::IsOk());
    Sampler sampler(plan, {}, *buffers);
    std::vector<int32_t> ids;
    for (int pos = 0; pos < num_draws; ++pos) {
      ids.push_back(sampler.Choose(logits, static_cast<uint64_t>(pos)));
    }
    return ids;
  }

  // Pearson's statistic of the draws against `expected` probabilities by id. A
  // token that is not in `expected` must not be drawn.
  double ChiSquare(const SamplingPlan& plan, const std::vector<float>& logits,
                   const std::map<int32_t, double>& expected) {
    constexpr int kDraws = 20000;
    std::map<int32_t, int> counts;
    for (int32_t id : Draw(plan, logits, kDraws)) ++counts[id];
    double statistic = 0;
    for (const auto& [id, count] : counts) {
      EXPECT_TRUE(expected.count(id)) << "token " << id << " was drawn";
    }
    for (const auto& [id, probability] : expected) {
      const double mean = probability * kDraws;
      statistic += (counts[id] - mean) * (counts[id] - mean) / mean;
    }
    return statistic;
  }

  MemoryAccount account_{"test", MemoryAccount::kUnlimited, nullptr};
};

// Logits whose softmax is 0.4, 0.3, 0.2, 0.1, not in order of id.
std::vector<float> FourTokens() {
  return {std::log(0.2f), std::log(0.4f), std::log(0.1f), std::log(0.3f)};
}

TEST_F(SamplerTest, DrawsFollowTheDistribution) {
  struct Case {
    const char* name;
    SamplingPlan plan;
    std::map<int32_t, double> expected;
    double limit;  // chi-square at p = 0.001 for one less than the tokens
  };
  // At temperature 0.5 probabilities are squared, then normalised: 16, 9, 4, 1
  // of 30.
  const Case cases[] = {
      {"plain",
       {.temperature = 1},
       {{1, 0.4}, {3, 0.3}, {0, 0.2}, {2, 0.1}},
       16.3},
      {"temperature",
       {.temperature = 0.5f},
       {{1, 16 / 30.}, {3, 9 / 30.}, {0, 4 / 30.}, {2, 1 / 30.}},
       16.3},
      {"top_k",
       {.temperature = 1, .top_k = 2},
       {{1, 4 / 7.}, {3, 3 / 7.}},
       10.8},
      {"top_k of all",
       {.temperature = 1, .top_k = 9},
       {{1, 0.4}, {3, 0.3}, {0, 0.2}, {2, 0.1}},
       16.3},
      // 0.4 and 0.3 sum to less than 0.75, so the third is kept.
      {"top_p",
       {.temperature = 1, .top_p = 0.75f},
       {{1, 4 / 9.}, {3, 3 / 9.}, {0, 2 / 9.}},
       13.8},
      {"top_p keeps one", {.temperature = 1, .top_p = 0.01f}, {{1, 1.0}}, 0.01},
      // After top-k the rest is normalised first: 4/7 is less than 0.55, 1 is
      // not.
      {"top_p after top_k",
       {.temperature = 1, .top_k = 2, .top_p = 0.55f},
       {{1, 1.0}},
       0.01},
      // 0.4 * 0.6 = 0.24.
      {"min_p",
       {.temperature = 1, .min_p = 0.6f},
       {{1, 4 / 7.}, {3, 3 / 7.}},
       10.8},
      {"min_p of 1", {.temperature = 1, .min_p = 1.0f}, {{1, 1.0}}, 0.01},
      {"all of them",
       {.temperature = 0.5f, .top_k = 3, .top_p = 0.9f, .min_p = 0.3f},
       {{1, 16 / 25.}, {3, 9 / 25.}},
       10.8},
  };
  for (Case test : cases) {
    SCOPED_TRACE(test.name);
    test.plan.seed = 20240607;
    EXPECT_LT(ChiSquare(test.plan, FourTokens(), test.expected), test.limit);
  }
}

TEST_F(SamplerTest, TopPIsExactWhenManyTokensHaveToBeSorted) {
  // 1000 equal tokens: top_p 0.5 keeps ids 0 .. 499.
  const std::vector<float> logits(1000, 3.0f);
  const std::vector<int32_t> ids =
      Draw({.temperature = 1, .top_p = 0.5f}, logits, 5000);
  EXPECT_THAT(ids, Each(::testing::Lt(501)));
  EXPECT_GT(*std::max_element(ids.begin(), ids.end()), 450);
  EXPECT_LT(*std::min_element(ids.begin(), ids.end()), 50);
}

TEST_F(SamplerTest, OfEqualLogitsTheSmallerIdsAreKept) {
  const std::vector<float> logits = {1, 2, 2, 2, 2};
  for (int32_t id : Draw({.temperature = 1, .top_k = 2}, logits, 500)) {
    EXPECT_THAT(id, ::testing::AnyOf(1, 2));
  }
}

TEST_F(SamplerTest, TemperatureZeroIsTheFirstLargestLogit) {
  EXPECT_EQ(Draw({}, {1, 5, 5, 2}, 1)[0], 1);
}

TEST_F(SamplerTest, TemperatureZeroWithAPenaltyIsTheArgmaxOfWhatItLeaves) {
  SamplingPlan plan;
  plan.penalties.presence = 2.5f;
  // 5 is chosen, then stands at 2.5; 4 is chosen, then at 1.5; then 2.5 wins.
  EXPECT_THAT(Draw(plan, {1, 5, 4}, 4), ::testing::ElementsAre(1, 2, 1, 1));
}

TEST_F(SamplerTest, TheSameSeedGivesTheSameTokens) {
  const SamplingPlan plan = {.temperature = 1, .seed = 7};
  EXPECT_EQ(Draw(plan, FourTokens(), 200), Draw(plan, FourTokens(), 200));
  SamplingPlan other = plan;
  other.seed = 8;
  EXPECT_NE(Draw(plan, FourTokens(), 200), Draw(other, FourTokens(), 200));
}

// The plans that are drawn from below: each cut alone, all together, cuts that
// keep everything or one token, cuts at the edges of what is sorted at a time.
std::vector<SamplingPlan> Plans() {
  std::vector<SamplingPlan> plans;
  for (const float temperature : {0.05f, 0.7f, 1.0f, 3.0f}) {
    for (const uint32_t top_k : {0u, 1u, 2u, 20u, 127u, 128u, 1000u, 70000u}) {
      for (const float top_p : {0.001f, 0.8f, 0.95f, 0.9999999f, 1.0f}) {
        for (const float min_p : {0.0f, 1e-30f, 0.05f, 1.0f}) {
          plans.push_back({.temperature = temperature,
                           .top_k = top_k,
                           .top_p = top_p,
                           .min_p = min_p,
                           .seed = plans.size()});
        }
      }
    }
  }
  return plans;
}

TEST_F(SamplerTest, DrawsAreThoseOfThePlainDefinition) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const auto normals = [&](size_t n, float deviation) {
    std::vector<float> logits(n);
    for (float& logit : logits) logit = deviation * normal(random);
    return logits;
  };
  std::vector<std::vector<float>> cases = {
      normals(1, 1), normals(17, 2), normals(300, 3), normals(5000, 0.01f)};
  cases.push_back(normals(3000, 2));  // with many ties
  for (float& logit : cases.back()) logit = std::round(logit);
  cases.push_back(std::vector<float>(777, -3.0f));
  cases.push_back(
      normals(2000, 3));  // as the order of ids: the worst to select
  std::sort(cases.back().begin(), cases.back().end());
  cases.push_back(cases.back());
  std::reverse(cases.back().begin(), cases.back().end());
  cases.push_back(normals(700, 4));
  for (size_t i = 0; i < 700; i += 3) cases.back()[i] = -kInfinity;
  for (size_t i = 1; i < 700; i += 5) cases.back()[i] = kNan;
  cases.push_back(normals(100, 1));
  cases.back()[40] = kInfinity;
  cases.back()[60] = kInfinity;
  cases.push_back(normals(100, 1e38f));
  cases.push_back({-0.0f, 0.0f, -0.0f, -1e-45f, 1e-45f});
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const SamplingPlan& plan : Plans()) {
      const std::vector<int32_t> ids = Draw(plan, cases[i], 3);
      for (uint64_t pos = 0; pos < ids.size(); ++pos) {
        ASSERT_EQ(ids[pos], testing::DrawByDefinition(plan, cases[i], pos))
            << "case " << i << ", temperature " << plan.temperature
            << ", top_k " << plan.top_k << ", top_p " << plan.top_p
            << ", min_p " << plan.min_p;
      }
    }
  }
}

// As above for a vocabulary of Qwen's size, whose distribution is that of a
// model: a few tokens far above the rest.
TEST_F(SamplerTest, DrawsAreThoseOfThePlainDefinitionInALargeVocabulary) {
  std::mt19937 random(6);
  std::normal_distribution<float> normal;
  std::vector<float> logits(151936);
  for (float& logit : logits) logit = 2.2f * normal(random);
  for (int i = 0; i < 60; ++i) {
    logits[random() % logits.size()] = 10 + 2 * normal(random);
  }
  uint64_t pos = 0;
  for (const SamplingPlan& plan :
       {SamplingPlan{.temperature = 1},
        SamplingPlan{.temperature = 0.7f, .top_k = 20, .top_p = 0.8f},
        SamplingPlan{.temperature = 0.8f, .top_p = 0.95f},
        SamplingPlan{.temperature = 1, .min_p = 0.05f},
        SamplingPlan{.temperature = 2, .top_p = 0.95f},
        SamplingPlan{.temperature = 1, .top_k = 50000, .min_p = 1e-6f}}) {
    const int32_t id = Draw(plan, logits, static_cast<int>(++pos)).back();
    EXPECT_EQ(id, testing::DrawByDefinition(plan, logits, pos - 1))
        << plan.temperature << " " << plan.top_k << " " << plan.top_p;
  }
}

// The rounded probabilities of the likely tokens often sum to less than a top_p
// just below 1, though what they should be is more: then all tokens are kept,
// those of the tail too. Position 331888730 of seed 7 draws one of the last
// 5e-10 of the mass.
TEST_F(SamplerTest, TopPThatRoundingKeepsOutOfReachKeepsTheTail) {
  const SamplingPlan plan = {
      .temperature = 1, .top_p = 1.0f - 0x1p-24f, .seed = 7};
  constexpr uint64_t kPos = 331888730;
  int num_of_tail = 0;
  for (int num_likely = 20; num_likely < 400; num_likely += 7) {
    std::vector<float> logits(6000, -22.0f);
    for (int i = 0; i < num_likely; ++i) {
      logits[13 * i] = -static_cast<float>(i % 37) / 37;
    }
    absl::StatusOr<SamplerBuffers> buffers =
        SamplerBuffers::Create(static_cast<uint32_t>(logits.size()), account_);
    ASSERT_THAT(buffers, testing::IsOk());
    const int32_t id = Sampler(plan, {}, *buffers).Choose(logits, kPos);
    EXPECT_EQ(id, testing::DrawByDefinition(plan, logits, kPos)) << num_likely;
    if (logits[id] == -22.0f) ++num_of_tail;
  }
  EXPECT_GT(num_of_tail, 0);
}

// Texts generated from a seed are the same on every machine and in every
// release.
TEST_F(SamplerTest, DrawsNeverChange) {
  std::vector<float> logits(50);
  for (int i = 0; i < 50; ++i)
    logits[i] = static_cast<float>((i * 37) % 50) / 8;
  const std::vector<int32_t> ids =
      Draw({.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = 42},
           logits, 12);
  EXPECT_THAT(
      ids, ::testing::ElementsAre(31, 32, 8, 27, 39, 27, 4, 16, 27, 16, 12, 4));
}

TEST_F(SamplerTest, ATinyTemperatureIsTheArgmax) {
  EXPECT_THAT(Draw({.temperature = 1e-38f}, {1, 3, 2}, 100), Each(1));
}

TEST_F(SamplerTest, LogitsThatAreNoNumbersAreDefined) {
  struct Case {
    const char* name;
    std::vector<float> logits;
    int32_t expected;
  };
  const Case cases[] = {
      {"NaN is never chosen", {kNan, 1, kNan}, 1},
      {"minus infinity is never chosen", {-kInfinity, -5, -kInfinity}, 1},
      {"infinity is", {0, kInfinity, 3}, 1},
      {"all NaN", {kNan, kNan}, 0},
      {"all minus infinity", {-kInfinity, -kInfinity}, 0},
  };
  const SamplingPlan plans[] = {
      {.temperature = 0},
      {.temperature = 1},
      {.temperature = 1, .top_k = 1},
      {.temperature = 1, .top_p = 0.5f, .min_p = 0.5f}};
  for (const Case& test : cases) {
    for (const SamplingPlan& plan : plans) {
      EXPECT_THAT(Draw(plan, test.logits, 20), Each(test.expected))
          << test.name << ", temperature " << plan.temperature << ", top_k "
          << plan.top_k << ", top_p " << plan.top_p;
    }
  }
}

TEST_F(SamplerTest, OneTokenIsAlwaysChosen) {
  EXPECT_THAT(Draw({.temperature = 1, .top_k = 1, .top_p = 0.1f}, {-3}, 3),
              Each(0));
}

TEST_F(SamplerTest, BuffersAreChargedAndRefused) {
  MemoryAccount small("small", 100, nullptr);
  EXPECT_THAT(SamplerBuffers::Create(1000, small),
              testing::Fails(absl::StatusCode::kResourceExhausted, "small"));
  EXPECT_EQ(SamplerBuffers::BytesFor(1000), 16000);
}

}  // namespace
}  // namespace lowmem
