// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/linear.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/model_run.h"
#include "tests/engine/nn/wrapped_sources.h"
#include "tests/support/matmul_scratch.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

// Counts the leases that are held at once.
class CountingSource : public WrappedSource {
 public:
  CountingSource(WeightSource& inner, bool allows_many)
      : WrappedSource(inner), allows_many_(allows_many) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    absl::StatusOr<WeightLease> lease =
        WrappedSource::Acquire(tensor, row_begin, max_rows);
    if (!lease.ok()) return lease;
    tensors_.push_back(tensor);
    most_held_ = std::max(most_held_, ++num_held_);
    // A lease of this source; those of the inner one need not be kept.
    return WeightLease(this, 0, lease->data(), row_begin, lease->num_rows());
  }
  bool AllowsManyLeases() const override { return allows_many_; }

  const std::vector<TensorId>& tensors() const { return tensors_; }
  int num_held() const { return num_held_; }
  int most_held() const { return most_held_; }

 private:
  void Release(uint64_t) override { --num_held_; }

  const bool allows_many_;
  std::vector<TensorId> tensors_;  // in the order in which they were asked for
  int num_held_ = 0;
  int most_held_ = 0;
};

// Queries, keys and values of a model whose projections have biases.
class LinearTest : public ::testing::Test {
 protected:
  static constexpr size_t kNumTokens = 5;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(absl::StrCat(
                                     LOWMEM_TESTDATA_DIR, "/tiny/qwen2")));
    ASSERT_OK_AND_ASSIGN(run_, ModelRun::Create(*model_, {.copy = true}));
    const ModelConfig& config = model_->config;
    x_.resize(kNumTokens * config.dim);
    for (size_t i = 0; i < x_.size(); ++i) {
      x_[i] = static_cast<float>(i % 13) - 6.5f;
    }
    scratch_.resize(std::max(config.q_dim(), config.kv_dim()));
  }

  struct Outputs {
    std::vector<float> q, k, v;
    bool operator==(const Outputs&) const = default;
  };

  std::vector<Projection> ProjectionsTo(Outputs& out) const {
    const ModelConfig& config = model_->config;
    out.q.resize(kNumTokens * config.q_dim());
    out.k.resize(kNumTokens * config.kv_dim());
    out.v.resize(kNumTokens * config.kv_dim());
    const LayerTensors& layer = model_->weights.layers[1];
    return {{layer.q_proj, layer.q_bias, out.q.data()},
            {layer.k_proj, layer.k_bias, out.k.data()},
            {layer.v_proj, layer.v_bias, out.v.data()}};
  }

  absl::Status Apply(WeightSource& source, ThreadPool& pool,
                     absl::Span<const Projection> projections,
                     size_t num_tokens = kNumTokens) {
    MatMulScratchSpace scratch(pool.num_threads(), model_->config.dim,
                               num_tokens);
    PassContext pass = {.checkpoint = *model_->checkpoint,
                        .source = source,
                        .pool = pool,
                        .matmul_scratch = scratch.floats()};
    return Linear(pass, projections, x_.data(), num_tokens,
                  absl::MakeSpan(scratch_));
  }

  Outputs EachAlone() {
    Outputs out;
    for (const Projection& projection : ProjectionsTo(out)) {
      EXPECT_THAT(Apply(*run_->inner_source, *run_->pool,
                        absl::MakeConstSpan(&projection, 1)),
                  IsOk());
    }
    return out;
  }

  std::unique_ptr<OpenModel> model_;
  std::unique_ptr<ModelRun> run_;
  std::vector<float> x_;
  std::vector<float> scratch_;
};

TEST_F(LinearTest, TogetherTheyAreWhatEachIsAlone) {
  const Outputs alone = EachAlone();
  for (const size_t num_threads : {1, 2, 3}) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<ThreadPool> pool,
                         ThreadPool::Create(num_threads));
    Outputs together;
    ASSERT_THAT(Apply(*run_->inner_source, *pool, ProjectionsTo(together)),
                IsOk());
    EXPECT_EQ(together, alone) << num_threads << " threads";
  }
}

TEST_F(LinearTest, RowsMayComeInAnyPieces) {
  const Outputs alone = EachAlone();
  for (const bool allows_many : {false, true}) {
    for (const uint64_t max_rows : {1, 3, 7, 100}) {
      TricklingSource trickling(*run_->inner_source, max_rows);
      CountingSource source(trickling, allows_many);
      Outputs together;
      ASSERT_THAT(Apply(source, *run_->pool, ProjectionsTo(together)), IsOk());
      EXPECT_EQ(together, alone) << allows_many << ", " << max_rows;
    }
  }
}

TEST_F(LinearTest, WholeTensorsAreLeasedTogether) {
  CountingSource source(*run_->inner_source, true);
  Outputs out;
  ASSERT_THAT(Apply(source, *run_->pool, ProjectionsTo(out)), IsOk());
  EXPECT_EQ(source.most_held(), 3);
  EXPECT_EQ(source.num_held(), 0);
}

// A source that streams hands out one piece at a time, in the order of the
// file.
TEST_F(LinearTest, AStreamIsAskedForOneLeaseAtATime) {
  TricklingSource trickling(*run_->inner_source, 30);
  CountingSource source(trickling, false);
  Outputs out;
  ASSERT_THAT(Apply(source, *run_->pool, ProjectionsTo(out)), IsOk());
  EXPECT_EQ(source.most_held(), 1);
  EXPECT_EQ(source.num_held(), 0);
  std::vector<TensorId> order = source.tensors();
  order.erase(std::unique(order.begin(), order.end()), order.end());
  const LayerTensors& layer = model_->weights.layers[1];
  EXPECT_EQ(order, (std::vector<TensorId>{layer.q_proj, layer.k_proj,
                                          layer.v_proj, *layer.q_bias,
                                          *layer.k_bias, *layer.v_bias}));
}

TEST_F(LinearTest, AFailureEndsEveryLease) {
  for (uint64_t failing = 0; failing < 3; ++failing) {
    WatchedSource watched(*run_->inner_source, [&](uint64_t i) {
      return i == failing ? absl::UnavailableError("gone") : absl::OkStatus();
    });
    CountingSource source(watched, true);
    Outputs out;
    EXPECT_THAT(Apply(source, *run_->pool, ProjectionsTo(out)),
                Fails(absl::StatusCode::kUnavailable, "gone"));
    EXPECT_EQ(source.num_held(), 0);
  }
}

}  // namespace
}  // namespace lowmem::testing
