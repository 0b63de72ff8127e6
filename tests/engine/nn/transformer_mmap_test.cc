// SPDX-License-Identifier: Apache-2.0
// A model that is mapped within a bound: the same bits at every budget, and no
// page fetched that the plan does not name.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/bounded_mmap_source.h"
#include "storage/mapped_window.h"
#include "storage/stream_order.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

class BoundedMmapTransformerTest
    : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(absl::StrCat(
                                     LOWMEM_TESTDATA_DIR, "/", GetParam())));
    ids_ = ReadGoldenPrompts(
               absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama/golden.json"))
               .at(1)
               .ids;
  }

  // From nothing but vectors (0) to everything (100).
  ResidencyPlan PlanFor(int percent) const {
    const Checkpoint& checkpoint = *model_->checkpoint;
    ResidencyRequest request = DescribeSteps(
        checkpoint, model_->weights.Steps(), {model_->weights.embedding});
    uint64_t fixed_bytes = 0;
    for (const auto& step : request.steps) {
      for (const TensorUse& use : step) {
        fixed_bytes += ResidencyPlan::kAlignmentBytes +
                       (use.may_stream ? 0 : use.num_rows * use.row_bytes);
      }
    }
    request.available_bytes =
        fixed_bytes + ResidencyPlan::kAlignmentBytes +
        (checkpoint.total_tensor_bytes() - fixed_bytes) * percent / 100;
    auto plan = PlanResidency(request);
    EXPECT_THAT(plan.status(), IsOk());
    return plan.ok() ? *std::move(plan) : ResidencyPlan();
  }

  // Run options under which the model is mapped, through the smallest window;
  // *source is set when it runs.
  RunOptions Mapped(const ResidencyPlan& plan, BoundedMmapSource** source) {
    RunOptions options;
    options.num_threads = 2;
    options.wrap_source =
        [&, source](
            WeightSource&,
            const Checkpoint& checkpoint) -> std::unique_ptr<WeightSource> {
      auto mapped = NewBoundedMmapSource(
          checkpoint, plan, SmallestWindowBytes(MaxRowBytes(plan), PageBytes()),
          account_, [](uint64_t, uint64_t) { return absl::OkStatus(); });
      EXPECT_THAT(mapped.status(), IsOk());
      if (!mapped.ok()) return nullptr;
      *source = mapped->get();
      return *std::move(mapped);
    };
    return options;
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<OpenModel> model_;
  std::vector<int32_t> ids_;
};

TEST_P(BoundedMmapTransformerTest, GivesTheSameBitsAtEveryBudget) {
  ASSERT_OK_AND_ASSIGN(auto copy, ModelRun::Create(*model_, {.copy = true}));
  Recording expected;
  ASSERT_THAT(copy->Forward(ids_, LogitsFor::kEveryToken, expected), IsOk());
  for (const int percent : {0, 1, 13, 34, 55, 78, 99, 110}) {
    for (const uint32_t chunk_tokens : {1, 7, 64}) {
      SCOPED_TRACE(absl::StrCat(percent, " %, chunk ", chunk_tokens));
      const ResidencyPlan plan = PlanFor(percent);
      BoundedMmapSource* source = nullptr;
      RunOptions options = Mapped(plan, &source);
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

TEST_P(BoundedMmapTransformerTest, ATokenFetchesWhatThePlanSays) {
  for (const int percent : {0, 40, 80}) {
    SCOPED_TRACE(percent);
    const ResidencyPlan plan = PlanFor(percent);
    const uint64_t end_bytes =
        2 * PageBytes() * StreamedRanges(*model_->checkpoint, plan).size();
    BoundedMmapSource* source = nullptr;
    ASSERT_OK_AND_ASSIGN(auto run,
                         ModelRun::Create(*model_, Mapped(plan, &source)));
    Recording recording;
    ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
    const uint64_t before = source->streamed_bytes();
    constexpr int kNumTokens = 6;
    ASSERT_THAT(run->Greedy({ids_.data(), 1}, kNumTokens).status(), IsOk());
    const uint64_t got = source->streamed_bytes() - before;
    EXPECT_GE(got + kNumTokens * end_bytes,
              kNumTokens * plan.streamed_bytes_per_pass);
    // And the embedding's row, which may lie in two pages.
    EXPECT_LE(got, kNumTokens * (plan.streamed_bytes_per_pass + end_bytes +
                                 2 * PageBytes()));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, BoundedMmapTransformerTest,
                         ::testing::Values("tiny/llama", "tiny/qwen2_sharded",
                                           "tiny-gguf/llama-mixed.gguf"),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (!isalnum(static_cast<unsigned char>(c)))
                               c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace lowmem::testing
