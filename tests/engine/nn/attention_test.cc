// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/attention.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

struct Case {
  uint32_t num_heads;
  uint32_t num_kv_heads;
  uint32_t head_dim;
  KvFormat format = KvFormat::kF32;
};

// Attention needs no weights, but a context names a checkpoint and a source.
class AttendTest : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr uint32_t kMaxTokens = 70;
  static constexpr uint32_t kLayer = 1;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(absl::StrCat(
                                     LOWMEM_TESTDATA_DIR, "/tiny/llama")));
    ASSERT_OK_AND_ASSIGN(run_, ModelRun::Create(*model_, {.num_threads = 2}));
    config_.num_layers = 2;
    config_.num_heads = GetParam().num_heads;
    config_.num_kv_heads = GetParam().num_kv_heads;
    config_.head_dim = GetParam().head_dim;
    kv_ =
        std::make_unique<KvCache>(KvShape{.num_layers = 2,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_dim = config_.head_dim,
                                          .format = GetParam().format},
                                  kMaxTokens, account_);
    ASSERT_THAT(kv_->Reserve(kMaxTokens), IsOk());
    std::mt19937 random(20240229);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (uint32_t pos = 0; pos < kMaxTokens; ++pos) {
      for (uint32_t h = 0; h < config_.num_kv_heads; ++h) {
        std::vector<float> key(config_.head_dim), value(config_.head_dim);
        for (uint32_t i = 0; i < config_.head_dim; ++i) {
          key[i] = uniform(random);
          value[i] = uniform(random);
        }
        kv_->Store(kLayer, h, pos, key.data(), value.data());
        // What another layer holds must not matter.
        const std::vector<float> nan(config_.head_dim, NAN);
        kv_->Store(0, h, pos, nan.data(), nan.data());
      }
    }
    q_.resize(kMaxTokens * config_.q_dim());
    for (float& value : q_) value = uniform(random);
  }

  // What the cache keeps of a row.
  std::vector<float> Kept(const uint8_t* page, uint32_t pos) const {
    std::vector<float> row(config_.head_dim);
    DecodeKvRow(GetParam().format,
                page + pos % KvCache::kPageTokens *
                           KvRowBytes(GetParam().format, config_.head_dim),
                config_.head_dim, row.data());
    return row;
  }

  // Straight from the formula, in double, with what the cache keeps.
  std::vector<double> Expected(uint32_t head, uint32_t pos) {
    const uint32_t dim = config_.head_dim;
    const uint32_t kv_head = head / (config_.num_heads / config_.num_kv_heads);
    const float* q = &q_[pos * config_.q_dim() + head * dim];
    std::vector<double> out(dim);
    double sum = 0;
    for (uint32_t k = 0; k <= pos; ++k) {
      const uint32_t page_idx = k / KvCache::kPageTokens;
      const std::vector<float> key =
          Kept(kv_->KeyPage(kLayer, kv_head, page_idx), k);
      const std::vector<float> value =
          Kept(kv_->ValuePage(kLayer, kv_head, page_idx), k);
      double score = 0;
      for (uint32_t i = 0; i < dim; ++i) {
        score += double{q[i]} * key[i];
      }
      const double weight = std::exp(score / std::sqrt(dim));
      sum += weight;
      for (uint32_t i = 0; i < dim; ++i) {
        out[i] += weight * value[i];
      }
    }
    for (double& value : out) value /= sum;
    return out;
  }

  std::vector<float> Run(const Chunk& chunk) {
    const PassContext pass = {.checkpoint = *model_->checkpoint,
                              .source = *run_->inner_source,
                              .pool = *run_->pool};
    std::vector<float> scores(2 * kMaxTokens);
    std::vector<float> out(chunk.num_tokens * config_.q_dim());
    EXPECT_THAT(Attend(pass, config_, kLayer, chunk,
                       &q_[chunk.first_pos * config_.q_dim()], *kv_,
                       absl::MakeSpan(scores), out.data()),
                IsOk());
    return out;
  }

  MemoryAccount account_{"test", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<OpenModel> model_;
  std::unique_ptr<ModelRun> run_;
  ModelConfig config_;
  std::unique_ptr<KvCache> kv_;
  std::vector<float> q_;  // [kMaxTokens, q_dim]
};

TEST_P(AttendTest, EveryPositionAsTheFormula) {
  const std::vector<float> out =
      Run({.first_pos = 0, .num_tokens = kMaxTokens});
  for (uint32_t pos = 0; pos < kMaxTokens; ++pos) {
    for (uint32_t head = 0; head < config_.num_heads; ++head) {
      const std::vector<double> expected = Expected(head, pos);
      for (uint32_t i = 0; i < config_.head_dim; ++i) {
        // Weights sum to 1 and values are below 2: a few roundings of 2^-24
        // each.
        ASSERT_NEAR(out[pos * config_.q_dim() + head * config_.head_dim + i],
                    expected[i], 4e-6)
            << "position " << pos << ", head " << head << ", element " << i;
      }
    }
  }
}

TEST_P(AttendTest, ChunksGiveTheSameBits) {
  const std::vector<float> whole =
      Run({.first_pos = 0, .num_tokens = kMaxTokens});
  // Around the edges of pages, and alone.
  for (const Chunk chunk : {Chunk{0, 1}, Chunk{15, 1}, Chunk{16, 1},
                            Chunk{17, 30}, Chunk{0, 16}, Chunk{69, 1}}) {
    const std::vector<float> part = Run(chunk);
    const auto begin = whole.begin() + chunk.first_pos * config_.q_dim();
    EXPECT_TRUE(std::equal(part.begin(), part.end(), begin))
        << chunk.first_pos << ", " << chunk.num_tokens;
  }
}

TEST_P(AttendTest, StopsWhenCancelled) {
  const std::atomic<bool> cancel = true;
  const PassContext pass = {.checkpoint = *model_->checkpoint,
                            .source = *run_->inner_source,
                            .pool = *run_->pool,
                            .cancel = &cancel};
  std::vector<float> scores(2 * kMaxTokens);
  std::vector<float> out(config_.q_dim(), 42.0f);
  EXPECT_THAT(Attend(pass, config_, kLayer, {.first_pos = 3, .num_tokens = 1},
                     q_.data(), *kv_, absl::MakeSpan(scores), out.data()),
              Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(out, std::vector<float>(config_.q_dim(), 42.0f));
}

constexpr const char* kFormatNames[] = {"f32", "bf16", "q8"};

std::string CaseName(const ::testing::TestParamInfo<Case>& param_info) {
  const Case& c = param_info.param;
  return absl::StrCat(c.num_heads, "_heads_", c.num_kv_heads, "_kv_",
                      c.head_dim, "_",
                      kFormatNames[static_cast<size_t>(c.format)]);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttendTest,
                         ::testing::Values(Case{1, 1, 2}, Case{6, 2, 16},
                                           Case{4, 4, 18}, Case{9, 3, 64},
                                           Case{8, 1, 20}, Case{2, 2, 128},
                                           Case{9, 3, 64, KvFormat::kBF16},
                                           Case{4, 4, 18, KvFormat::kBF16},
                                           Case{9, 3, 64, KvFormat::kQ8},
                                           Case{2, 1, 80, KvFormat::kQ8},
                                           Case{4, 2, 18, KvFormat::kQ8}),
                         CaseName);

}  // namespace
}  // namespace lowmem::testing
