// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/perplexity.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

constexpr char kModel[] = LOWMEM_TESTDATA_DIR "/tiny/llama";
// The first prompt of golden.json, whose logits are golden too.
const std::vector<int32_t> kPrompt = {267, 220, 297, 315, 266,
                                      311, 82,  258, 277};

void IgnoreProgress(uint64_t, uint64_t) {}

class PerplexityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_path = kModel;
    options.num_threads = 1;
    ASSERT_OK_AND_ASSIGN(engine_, EngineState::Open(options));
    ASSERT_OK_AND_ASSIGN(scorer_, Engine::Open(options));
  }

  absl::StatusOr<PerplexityResult> Measure(const std::vector<int32_t>& ids,
                                           PerplexityOptions options = {}) {
    return MeasurePerplexity(*engine_, ids, options, nullptr, IgnoreProgress);
  }

  // -ln p of the last token of `ids`, given all before it; straightforward.
  double LastTokenNll(std::vector<int32_t> ids) {
    const int32_t last = ids.back();
    ids.pop_back();
    absl::StatusOr<std::unique_ptr<Session>> session = scorer_->NewSession();
    EXPECT_THAT((*session)->AppendIds(ids), IsOk());
    double nll = 0;
    EXPECT_THAT(
        (*session)->Score([&](uint64_t, absl::Span<const float> logits) {
          double sum = 0;
          for (float logit : logits) sum += std::exp(double{logit});
          nll = std::log(sum) - logits[last];
          return absl::OkStatus();
        }),
        IsOk());
    return nll;
  }

  std::unique_ptr<EngineState> engine_;
  std::unique_ptr<Engine> scorer_;
};

TEST_F(PerplexityTest, OneWindowAgreesWithTheGoldenLogits) {
  const testing::GoldenTensors golden(
      absl::StrCat(kModel, "/golden.safetensors"));
  const std::vector<float> logits = golden.Floats("p0.logits");
  ASSERT_EQ(logits.size(), kPrompt.size() * 320);
  double sum = 0;
  for (size_t i = 0; i + 1 < kPrompt.size(); ++i) {
    double normaliser = 0;
    for (size_t k = 0; k < 320; ++k)
      normaliser += std::exp(logits[i * 320 + k]);
    sum += std::log(normaliser) - logits[i * 320 + kPrompt[i + 1]];
  }
  ASSERT_OK_AND_ASSIGN(const PerplexityResult result, Measure(kPrompt));
  EXPECT_EQ(result.num_tokens, 8);
  EXPECT_NEAR(result.nll, sum / 8, 1e-4);
  EXPECT_DOUBLE_EQ(result.perplexity, std::exp(result.nll));
}

// Every token is predicted once, from at most a window before it.
TEST_F(PerplexityTest, WindowsSlideAsInTheGuide) {
  struct Case {
    uint32_t window_tokens;
    uint32_t stride_tokens;
    // For each predicted token its context's first token, by hand.
    std::vector<std::pair<size_t, size_t>> token_and_begin;
  };
  const Case cases[] = {
      {6, 3, {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 3}, {7, 3}, {8, 3}}},
      {6, 2, {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 2}, {7, 2}, {8, 4}}},
      {2, 1, {{1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 4}, {6, 5}, {7, 6}, {8, 7}}},
      // A stride of a whole window: the first of each is context only.
      {4, 4, {{1, 0}, {2, 0}, {3, 0}, {5, 4}, {6, 4}, {7, 4}}},
      {9, 9, {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}}},
      {100,
       50,
       {{1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}}},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(absl::StrCat(test.window_tokens, "/", test.stride_tokens));
    double sum = 0;
    for (const auto& [token, begin] : test.token_and_begin) {
      sum +=
          LastTokenNll({kPrompt.begin() + begin, kPrompt.begin() + token + 1});
    }
    ASSERT_OK_AND_ASSIGN(
        const PerplexityResult result,
        Measure(kPrompt, {test.window_tokens, test.stride_tokens}));
    EXPECT_EQ(result.num_tokens, test.token_and_begin.size());
    EXPECT_NEAR(result.nll, sum / test.token_and_begin.size(), 1e-9);
  }
}

TEST_F(PerplexityTest, ProgressReachesTheWhole) {
  uint64_t last = 0;
  ASSERT_OK_AND_ASSIGN(
      const PerplexityResult result,
      MeasurePerplexity(*engine_, kPrompt, {4, 2}, nullptr,
                        [&](uint64_t done_tokens, uint64_t total_tokens) {
                          EXPECT_GT(done_tokens, last);
                          EXPECT_EQ(total_tokens, kPrompt.size());
                          last = done_tokens;
                        }));
  EXPECT_EQ(last, kPrompt.size());
  EXPECT_GT(result.nll, 0);
}

TEST_F(PerplexityTest, MisuseIsRefused) {
  EXPECT_THAT(Measure({}),
              Fails(absl::StatusCode::kInvalidArgument, "too short"));
  EXPECT_THAT(Measure({1}), Fails(absl::StatusCode::kInvalidArgument, "got 1"));
  EXPECT_THAT(Measure({1, 320}),
              Fails(absl::StatusCode::kInvalidArgument, "got 320"));
  EXPECT_THAT(Measure(kPrompt, {1, 1}),
              Fails(absl::StatusCode::kInvalidArgument, "window"));
  EXPECT_THAT(Measure(kPrompt, {513, 1}),
              Fails(absl::StatusCode::kInvalidArgument, "expected 2 to 512"));
  EXPECT_THAT(Measure(kPrompt, {4, 5}),
              Fails(absl::StatusCode::kInvalidArgument, "stride"));
}

TEST_F(PerplexityTest, CancellationEndsIt) {
  const std::atomic<bool> cancel{true};
  EXPECT_THAT(MeasurePerplexity(*engine_, kPrompt, {}, &cancel, IgnoreProgress),
              Fails(absl::StatusCode::kCancelled, ""));
}

TEST(NegativeLogLikelihoodTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, 3e38f, -3e38f};
  EXPECT_NEAR(NegativeLogLikelihood(logits, 0), std::log(2.0), 1e-12);
  const std::vector<float> flat(8, -1e30f);
  EXPECT_NEAR(NegativeLogLikelihood(flat, 3), std::log(8.0), 1e-12);
}

}  // namespace
}  // namespace lowmem
