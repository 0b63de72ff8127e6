// SPDX-License-Identifier: Apache-2.0
// A model whose weights stream: the same bits at every budget, and no byte read
// that the plan does not name.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/stream_order.h"
#include "storage/stream_source.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

// Small against the tiny models, so that the ring turns many times a pass.
constexpr StreamRingShape kRing = {.num_buffers = 4, .buffer_bytes = 4096};

class StreamedTransformerTest : public ::testing::TestWithParam<const char*> {
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
    request.ring_bytes = StreamBufferBytes(kRing, MaxRowBytes(request));
    uint64_t fixed_bytes = 0;
    for (const auto& step : request.steps) {
      for (const TensorUse& use : step) {
        fixed_bytes += 64 + (use.may_stream ? 0 : use.num_rows * use.row_bytes);
      }
    }
    request.available_bytes =
        request.ring_bytes + fixed_bytes + 64 +
        (checkpoint.total_tensor_bytes() - fixed_bytes) * percent / 100;
    auto plan = PlanResidency(request);
    EXPECT_THAT(plan.status(), IsOk());
    return plan.ok() ? *std::move(plan) : ResidencyPlan();
  }

  // Run options under which the model streams; *source is set when it runs.
  RunOptions Streamed(const ResidencyPlan& plan, StreamSource** source) {
    RunOptions options;
    options.num_threads = 2;
    options.wrap_source =
        [&, source](
            WeightSource&,
            const Checkpoint& checkpoint) -> std::unique_ptr<WeightSource> {
      auto stream =
          NewStreamSource(checkpoint, plan, {.ring = kRing}, account_,
                          [](uint64_t, uint64_t) { return absl::OkStatus(); });
      EXPECT_THAT(stream.status(), IsOk());
      if (!stream.ok()) return nullptr;
      *source = stream->get();
      return *std::move(stream);
    };
    return options;
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
  std::unique_ptr<OpenModel> model_;
  std::vector<int32_t> ids_;
};

TEST_P(StreamedTransformerTest, GivesTheSameBitsAtEveryBudget) {
  ASSERT_OK_AND_ASSIGN(auto copy, ModelRun::Create(*model_, {.copy = true}));
  Recording expected;
  ASSERT_THAT(copy->Forward(ids_, LogitsFor::kEveryToken, expected), IsOk());
  for (const int percent : {0, 1, 13, 34, 55, 78, 99, 110}) {
    for (const uint32_t chunk_tokens : {1, 7, 64}) {
      SCOPED_TRACE(absl::StrCat(percent, " %, chunk ", chunk_tokens));
      const ResidencyPlan plan = PlanFor(percent);
      StreamSource* source = nullptr;
      RunOptions options = Streamed(plan, &source);
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

TEST_P(StreamedTransformerTest, ATokenReadsWhatThePlanSays) {
  for (const int percent : {0, 40, 80}) {
    SCOPED_TRACE(percent);
    const ResidencyPlan plan = PlanFor(percent);
    uint64_t pass_bytes = 0;
    for (const StreamRange& range : StreamedRanges(*model_->checkpoint, plan)) {
      pass_bytes += (range.num_bytes + 4095) / 4096 * 4096;
    }
    StreamSource* source = nullptr;
    ASSERT_OK_AND_ASSIGN(auto run,
                         ModelRun::Create(*model_, Streamed(plan, &source)));
    Recording recording;
    ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
    const uint64_t before = source->streamed_bytes();
    constexpr int kNumTokens = 6;
    ASSERT_THAT(run->Greedy({ids_.data(), 1}, kNumTokens).status(), IsOk());
    const uint64_t got = source->streamed_bytes() - before;
    EXPECT_GE(got, kNumTokens * pass_bytes);
    // And the embedding's row, which may lie in two blocks.
    EXPECT_LE(got, kNumTokens * (pass_bytes + 2 * 4096));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, StreamedTransformerTest,
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
