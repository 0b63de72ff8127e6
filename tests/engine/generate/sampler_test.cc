// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/sampler.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
