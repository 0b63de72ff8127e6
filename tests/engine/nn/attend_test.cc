// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/attend.h"

#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "quant/matmul.h"
#include "quant/vector_ops.h"
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
    Fill(GetParam(), kMaxTokens);
  }

  // Random keys, values and queries of `num_tokens` positions.
  void Fill(const Case& c, uint32_t num_tokens) {
    config_.num_layers = 2;
    config_.num_heads = c.num_heads;
    config_.num_kv_heads = c.num_kv_heads;
    config_.head_dim = c.head_dim;
    kv_ =
        std::make_unique<KvCache>(KvShape{.num_layers = 2,
                                          .num_kv_heads = config_.num_kv_heads,
                                          .head_dim = config_.head_dim,
                                          .format = c.format},
                                  num_tokens, account_);
    ASSERT_THAT(kv_->Reserve(num_tokens), IsOk());
    std::mt19937 random(20240229);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (uint32_t pos = 0; pos < num_tokens; ++pos) {
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
    q_.resize(num_tokens * config_.q_dim());
    for (float& value : q_) value = uniform(random);
  }

  // What the cache keeps of a row.
  std::vector<float> Kept(const uint8_t* page, uint32_t pos) const {
    const KvFormat format = kv_->shape().format;
    std::vector<float> row(config_.head_dim);
    DecodeKvRow(format,
                page + pos % KvCache::kPageTokens *
                           KvRowBytes(format, config_.head_dim),
                config_.head_dim, row.data());
    return row;
  }
  std::vector<float> Key(uint32_t kv_head, uint32_t pos) const {
    return Kept(kv_->KeyPage(kLayer, kv_head, pos / KvCache::kPageTokens), pos);
  }
  std::vector<float> Value(uint32_t kv_head, uint32_t pos) const {
    return Kept(kv_->ValuePage(kLayer, kv_head, pos / KvCache::kPageTokens),
                pos);
  }

  // One head of one token, operation by operation as they are documented.
  std::vector<float> ExpectedBits(uint32_t head, uint32_t pos) const {
    const uint32_t dim = config_.head_dim;
    const uint32_t kv_head = head / (config_.num_heads / config_.num_kv_heads);
    const float* q = &q_[pos * config_.q_dim() + head * dim];
    const auto scale =
        static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
    std::vector<float> weights(pos + 1);
    for (uint32_t k = 0; k <= pos; ++k) {
      weights[k] = scale * Dot(Key(kv_head, k).data(), q, dim);
    }
    Softmax(weights.size(), weights.data());
    std::vector<float> out(dim);
    for (uint32_t k = 0; k <= pos; ++k) {
      ScaleAdd(weights[k], Value(kv_head, k).data(), dim, out.data());
    }
    return out;
  }

  // Straight from the formula, in double, with what the cache keeps.
  std::vector<double> Expected(uint32_t head, uint32_t pos) {
    const uint32_t dim = config_.head_dim;
    const uint32_t kv_head = head / (config_.num_heads / config_.num_kv_heads);
    const float* q = &q_[pos * config_.q_dim() + head * dim];
    std::vector<double> out(dim);
    double sum = 0;
    for (uint32_t k = 0; k <= pos; ++k) {
      const std::vector<float> key = Key(kv_head, k);
      const std::vector<float> value = Value(kv_head, k);
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
    return Run(chunk, *run_->pool,
               ScoreFloats(config_, chunk.num_tokens,
                           chunk.first_pos + chunk.num_tokens));
  }
  std::vector<float> Run(const Chunk& chunk, ThreadPool& pool,
                         size_t score_floats) {
    const PassContext pass = {.checkpoint = *model_->checkpoint,
                              .source = *run_->inner_source,
                              .pool = pool};
    std::vector<float> scores(score_floats);
    std::vector<float> out(chunk.num_tokens * config_.q_dim());
    EXPECT_THAT(Attend(pass, config_, kLayer, chunk,
                       &q_[chunk.first_pos * config_.q_dim()], *kv_,
                       absl::MakeSpan(scores), out.data()),
                IsOk());
    return out;
  }

  void ExpectBits(const std::vector<float>& out, const Chunk& chunk) {
    for (uint32_t t = 0; t < chunk.num_tokens; ++t) {
      for (uint32_t head = 0; head < config_.num_heads; ++head) {
        const auto begin =
            out.begin() + (t * config_.num_heads + head) * config_.head_dim;
        ASSERT_EQ(std::vector<float>(begin, begin + config_.head_dim),
                  ExpectedBits(head, chunk.first_pos + t))
            << "position " << chunk.first_pos + t << ", head " << head;
      }
    }
  }

  MemoryAccount account_{"test", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<OpenModel> model_;
  std::unique_ptr<ModelRun> run_;
  ModelConfig config_;
  std::unique_ptr<KvCache> kv_;
  std::vector<float> q_;  // [num_tokens, q_dim]
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

TEST_P(AttendTest, EveryHeadHasTheBitsItHasAlone) {
  const Chunk chunk = {.first_pos = 0, .num_tokens = kMaxTokens};
  ExpectBits(Run(chunk), chunk);
}

// A token and a key-value head at a time, a few, all.
TEST_P(AttendTest, RoomForScoresChangesNoBit) {
  const Chunk chunk = {.first_pos = 3, .num_tokens = kMaxTokens - 3};
  const std::vector<float> whole = Run(chunk);
  const size_t least = config_.num_heads / config_.num_kv_heads * 80;
  for (const size_t times : {1u, 2u, config_.num_kv_heads + 1, 1000u}) {
    EXPECT_EQ(Run(chunk, *run_->pool, least * times), whole) << times;
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
  std::vector<float> scores(ScoreFloats(config_, 1, 4));
  std::vector<float> out(config_.q_dim(), 42.0f);
  EXPECT_THAT(Attend(pass, config_, kLayer, {.first_pos = 3, .num_tokens = 1},
                     q_.data(), *kv_, absl::MakeSpan(scores), out.data()),
              Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(out, std::vector<float>(config_.q_dim(), 42.0f));
}

// Long enough that a token's work is shared out, in each of the three loops.
TEST_P(AttendTest, ThreadsChangeNoBitOfALongContext) {
  constexpr uint32_t kLongTokens = 700;
  Fill(GetParam(), kLongTokens);
  for (const Chunk chunk : {Chunk{kLongTokens - 1, 1}, Chunk{650, 33}}) {
    std::vector<float> alone;
    for (const size_t num_threads : {1, 2, 3, 8}) {
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadPool> pool,
                           ThreadPool::Create(num_threads));
      const std::vector<float> out =
          Run(chunk, *pool, ScoreFloats(config_, 128, kLongTokens));
      if (num_threads == 1) {
        alone = out;
        ExpectBits({out.begin(), out.begin() + config_.q_dim()},
                   {chunk.first_pos, 1});
      }
      EXPECT_EQ(out, alone) << num_threads << " threads";
    }
  }
}

class ScoreFloatsTest : public ::testing::Test {
 protected:
  ScoreFloatsTest() {
    config_.num_heads = 9;
    config_.num_kv_heads = 3;
    config_.head_dim = 64;
  }
  ModelConfig config_;
};

TEST_F(ScoreFloatsTest, AChunkHasRoomForSeveralTokensUpToABound) {
  EXPECT_EQ(ScoreFloats(config_, 1, 100), 9 * 112);
  EXPECT_EQ(ScoreFloats(config_, 16, 100), 9 * 112);
  EXPECT_EQ(ScoreFloats(config_, 128, 100), 8 * 9 * 112);
  EXPECT_EQ(ScoreFloats(config_, 128, 1 << 14), 1 << 18);
  // A key-value head's, whatever they take.
  EXPECT_EQ(ScoreFloats(config_, 128, 1 << 20), 3 << 20);
}

// The longest context that fits a budget is searched for by halving.
TEST_F(ScoreFloatsTest, ALongerContextNeverNeedsLess) {
  for (const uint32_t chunk_tokens : {1, 16, 128}) {
    uint64_t last = 0;
    for (uint32_t context = 1; context < 200000; context += 61) {
      const uint64_t floats = ScoreFloats(config_, chunk_tokens, context);
      ASSERT_GE(floats, last) << context;
      last = floats;
    }
  }
}

constexpr const char* kFormatNames[] = {"f32", "bf16", "q8"};

std::string CaseName(const ::testing::TestParamInfo<Case>& param_info) {
  const Case& c = param_info.param;
  return absl::StrCat(c.num_heads, "_heads_", c.num_kv_heads, "_kv_",
                      c.head_dim, "_",
                      kFormatNames[static_cast<size_t>(c.format)]);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttendTest,
    ::testing::Values(
        Case{1, 1, 2}, Case{6, 2, 16}, Case{4, 4, 18}, Case{9, 3, 64},
        Case{8, 1, 20}, Case{2, 2, 128}, Case{14, 2, 64}, Case{10, 2, 48},
        Case{6, 1, 34}, Case{9, 3, 64, KvFormat::kBF16},
        Case{4, 4, 18, KvFormat::kBF16}, Case{14, 2, 64, KvFormat::kBF16},
        Case{9, 3, 64, KvFormat::kQ8}, Case{2, 1, 80, KvFormat::kQ8},
        Case{4, 2, 18, KvFormat::kQ8}, Case{14, 2, 64, KvFormat::kQ8}),
    CaseName);

}  // namespace
}  // namespace lowmem::testing
