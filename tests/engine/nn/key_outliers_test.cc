// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/key_outliers.h"

#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/model_run.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

TEST(FirstSlowPairTest, IsWhereTheContextTurnsLessThanARadian) {
  const std::vector<float> inv_freq = {1.0f, 0.1f, 0.01f, 0.001f};
  struct Case {
    uint32_t max_context_tokens;
    uint32_t pair;
  };
  for (const Case& c :
       {Case{1, 1}, Case{9, 1}, Case{11, 2}, Case{99, 2}, Case{101, 3},
        Case{999, 3}, Case{1001, 4}, Case{1u << 24, 4}}) {
    EXPECT_EQ(FirstSlowPair(inv_freq, c.max_context_tokens), c.pair)
        << c.max_context_tokens;
  }
}

TEST(FirstSlowPairTest, NoFasterPairComesBehind) {
  EXPECT_EQ(FirstSlowPair(std::vector<float>{0.001f, 0.1f, 0.001f}, 100), 2u);
  EXPECT_EQ(FirstSlowPair(std::vector<float>{0.001f, 0.001f}, 100), 0u);
  EXPECT_EQ(FirstSlowPair({}, 100), 0u);
}

// The functions need no weights, but a context names a checkpoint and a source.
class KeyOutliersTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr size_t kTokens = 21;  // more than one grain of threads

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(absl::StrCat(
                                     LOWMEM_TESTDATA_DIR, "/tiny/llama")));
    ASSERT_OK_AND_ASSIGN(run_, ModelRun::Create(*model_, {.num_threads = 2}));
    pass_ = std::make_unique<PassContext>(
        PassContext{.checkpoint = *model_->checkpoint,
                    .source = *run_->inner_source,
                    .pool = *run_->pool});
    config_.head_dim = GetParam();
    config_.num_heads = 4;
    config_.num_kv_heads = 2;
    queries_ = RandomFloats(kTokens * config_.q_dim(), 1);
    keys_ = RandomFloats(kTokens * config_.kv_dim(), 2);
  }

  double Score(size_t token, uint32_t head, size_t key_token) const {
    const uint32_t kv_head = head / 2;
    const float* q =
        &queries_[token * config_.q_dim() + head * config_.head_dim];
    const float* k =
        &keys_[key_token * config_.kv_dim() + kv_head * config_.head_dim];
    double score = 0;
    for (uint32_t i = 0; i < config_.head_dim; ++i)
      score += double{q[i]} * k[i];
    return score;
  }

  std::unique_ptr<OpenModel> model_;
  std::unique_ptr<ModelRun> run_;
  std::unique_ptr<PassContext> pass_;
  ModelConfig config_;
  std::vector<float> queries_;
  std::vector<float> keys_;
};

TEST_P(KeyOutliersTest, SubtractingABiasMovesEveryScoreOfAQueryAlike) {
  const std::vector<float> bias = RandomFloats(config_.kv_dim(), 3);
  std::vector<double> before;
  for (size_t t = 0; t < kTokens; ++t) before.push_back(Score(5, 3, t));
  SubtractSlowBias(*pass_, config_, 0, bias.data(), kTokens, keys_.data());
  const double moved = Score(5, 3, 0) - before[0];
  EXPECT_GT(std::fabs(moved), 1e-3);
  for (size_t t = 0; t < kTokens; ++t) {
    // A rounding of 2^-24 in each of the elements, which are below 10.
    EXPECT_NEAR(Score(5, 3, t) - before[t], moved, config_.head_dim * 1e-5)
        << t;
  }
}

TEST_P(KeyOutliersTest, OnlySlowPairsLoseTheirBias) {
  const std::vector<float> bias(config_.kv_dim(), 100.0f);
  const uint32_t num_pairs = config_.head_dim / 2;
  for (const bool neighbour_pairs : {false, true}) {
    config_.rope.neighbour_pairs = neighbour_pairs;
    for (const uint32_t first_slow : {0u, num_pairs / 2, num_pairs}) {
      std::vector<float> keys = keys_;
      SubtractSlowBias(*pass_, config_, first_slow, bias.data(), kTokens,
                       keys.data());
      for (size_t i = 0; i < keys.size(); ++i) {
        const uint32_t element = static_cast<uint32_t>(i % config_.head_dim);
        const uint32_t pair =
            neighbour_pairs ? element / 2 : element % num_pairs;
        const float expected =
            pair >= first_slow ? keys_[i] - 100.0f : keys_[i];
        ASSERT_EQ(keys[i], expected) << first_slow << " " << i;
      }
    }
  }
}

TEST_P(KeyOutliersTest, SpreadingKeepsEveryScore) {
  std::vector<double> before;
  for (size_t t = 0; t < kTokens; ++t) {
    for (uint32_t h = 0; h < 4; ++h) before.push_back(Score(t, h, t / 2));
  }
  const std::vector<float> keys = keys_;
  SpreadOutliers(*pass_, config_, kTokens, queries_.data(), keys_.data());
  EXPECT_NE(keys_, keys);
  size_t i = 0;
  for (size_t t = 0; t < kTokens; ++t) {
    for (uint32_t h = 0; h < 4; ++h) {
      // At most 8 roundings of 2^-24 in elements of a few times sqrt(run).
      EXPECT_NEAR(Score(t, h, t / 2), before[i++], config_.head_dim * 1e-5);
    }
  }
}

TEST_P(KeyOutliersTest, SpreadingMakesTheLargestElementSmall) {
  for (float& key : keys_) key = 0.0f;
  keys_[3] = 100.0f;
  SpreadOutliers(*pass_, config_, kTokens, queries_.data(), keys_.data());
  // Without the factor, which the queries have: all of the same magnitude.
  float sum = 0;
  for (const float key : keys_) sum += std::fabs(key);
  EXPECT_EQ(sum, 100.0f * static_cast<float>(config_.head_dim &
                                             (~config_.head_dim + 1)));
}

INSTANTIATE_TEST_SUITE_P(HeadDims, KeyOutliersTest,
                         ::testing::Values(18u, 64u, 80u, 128u),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace lowmem::testing
