// SPDX-License-Identifier: Apache-2.0
// A model of which a plan keeps a part in memory, streamed or mapped: the same
// bits at every budget, and no byte read that the plan does not name.
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/stream_order.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/bounded_source.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

// Small against the tiny models, so that the ring turns many times a pass.
constexpr StreamRingShape kRing = {.num_buffers = 4, .buffer_bytes = 4096};

class BoundedTransformerTest : public ::testing::TestWithParam<
                                   std::tuple<BoundedSourceKind, const char*>> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        model_, OpenModel::Open(absl::StrCat(LOWMEM_TESTDATA_DIR, "/",
                                             std::get<1>(GetParam()))));
    ids_ = ReadGoldenPrompts(
               absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama/golden.json"))
               .at(1)
               .ids;
  }

  static const BoundedSourceKind& kind() { return std::get<0>(GetParam()); }

  // From nothing but vectors (0) to everything (100).
  ResidencyPlan PlanFor(int percent) const {
    const Checkpoint& checkpoint = *model_->checkpoint;
    ResidencyRequest request = DescribeSteps(
        checkpoint, model_->weights.Steps(), {model_->weights.embedding});
    request.ring_bytes = kind().ring_bytes(kRing, MaxRowBytes(request));
    uint64_t fixed_bytes = 0;
    for (const auto& step : request.steps) {
      for (const TensorUse& use : step) {
        fixed_bytes += ResidencyPlan::kAlignmentBytes +
                       (use.may_stream ? 0 : use.num_rows * use.row_bytes);
      }
    }
    request.available_bytes =
        request.ring_bytes + fixed_bytes + ResidencyPlan::kAlignmentBytes +
        (checkpoint.total_tensor_bytes() - fixed_bytes) * percent / 100;
    auto plan = PlanResidency(request);
    EXPECT_THAT(plan.status(), IsOk());
    return plan.ok() ? *std::move(plan) : ResidencyPlan();
  }

  // Run options under which the plan is followed; streamed_bytes_ is set when
  // it runs.
  RunOptions Bounded(const ResidencyPlan& plan) {
    RunOptions options;
    options.num_threads = 2;
    options.wrap_source =
        [&](WeightSource&,
            const Checkpoint& checkpoint) -> std::unique_ptr<WeightSource> {
      auto opened = kind().open(checkpoint, plan, kRing, account_);
      EXPECT_THAT(opened.status(), IsOk());
      if (!opened.ok()) return nullptr;
      streamed_bytes_ = opened->streamed_bytes;
      return std::move(opened->source);
    };
    return options;
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<OpenModel> model_;
  std::function<uint64_t()> streamed_bytes_;
  std::vector<int32_t> ids_;
};

TEST_P(BoundedTransformerTest, GivesTheSameBitsAtEveryBudget) {
  ASSERT_OK_AND_ASSIGN(auto copy, ModelRun::Create(*model_, {.copy = true}));
  Recording expected;
  ASSERT_THAT(copy->Forward(ids_, LogitsFor::kEveryToken, expected), IsOk());
  for (const int percent : {0, 1, 13, 34, 55, 78, 99, 110}) {
    for (const uint32_t chunk_tokens : {1, 7, 64}) {
      SCOPED_TRACE(absl::StrCat(percent, " %, chunk ", chunk_tokens));
      const ResidencyPlan plan = PlanFor(percent);
      RunOptions options = Bounded(plan);
      options.chunk_tokens = chunk_tokens;
      options.logit_bytes = 1;  // the head token by token: walked again
      ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, options));
      Recording recording;
      ASSERT_THAT(run->Forward(ids_, LogitsFor::kEveryToken, recording),
                  IsOk());
      EXPECT_EQ(recording.AllLogits(), expected.AllLogits());
    }
  }
}

TEST_P(BoundedTransformerTest, ATokenReadsWhatThePlanSays) {
  for (const int percent : {0, 40, 80}) {
    SCOPED_TRACE(percent);
    const ResidencyPlan plan = PlanFor(percent);
    // At the two ends of a range there may be a piece more, and one less where
    // it is resident anyway.
    const uint64_t end_bytes = 2 * kind().piece_bytes() *
                               StreamedRanges(*model_->checkpoint, plan).size();
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, Bounded(plan)));
    Recording recording;
    ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
    const uint64_t before = streamed_bytes_();
    constexpr int kNumTokens = 6;
    ASSERT_THAT(run->Greedy({ids_.data(), 1}, kNumTokens).status(), IsOk());
    const uint64_t got = streamed_bytes_() - before;
    EXPECT_GE(got + kNumTokens * end_bytes,
              kNumTokens * plan.streamed_bytes_per_pass);
    // And the embedding's row, which may lie in two pieces.
    EXPECT_LE(got, kNumTokens * (plan.streamed_bytes_per_pass + end_bytes +
                                 2 * kind().piece_bytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, BoundedTransformerTest,
    ::testing::Combine(::testing::Values(StreamKind<IoMethod::kAuto>("Stream"),
                                         MmapKind()),
                       ::testing::Values("tiny/llama", "tiny/qwen2_sharded",
                                         "tiny-gguf/llama-mixed.gguf")),
    [](const auto& param) {
      return PathAsName(absl::StrCat(std::get<0>(param.param).name, "_",
                                     std::get<1>(param.param)));
    });

}  // namespace
}  // namespace lowmem::testing
