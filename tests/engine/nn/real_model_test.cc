// SPDX-License-Identifier: Apache-2.0
// Published models against values that transformers computed in float32.
// Skipped where the models were not fetched. The continuation is given to the
// model behind its prompt, so that a prompt costs one pass: the choice after
// each token is the same as one token at a time would give
// (transformer_equivalence_test proves that).
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "quant/vector_ops.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

constexpr double kRealLogitTolerance = 5e-4;
constexpr double kNllTolerance = 1e-5;
constexpr double kRealHiddenTolerance = 5e-5;  // of the vector's norm

struct RealModel {
  const char* name;
  const char* golden;   // in tests/testdata/real
  const char* weights;  // member of "weights" there
  const char* path;     // in models
};

double NumberOf(const JsonValue& value) {
  return value.AsDouble().value_or(std::nan(""));
}

// Compares what a pass shows with the golden values of one prompt.
class PromptChecker : public ForwardObserver {
 public:
  PromptChecker(std::vector<int32_t> prompt, const JsonValue& golden,
                size_t dim)
      : num_prompt_(prompt.size()),
        ids_(std::move(prompt)),
        golden_(golden),
        dim_(dim) {
    const std::vector<int32_t> continuation =
        IdsOf(golden.Find("continuation"));
    ids_.insert(ids_.end(), continuation.begin(), continuation.end());
  }

  const std::vector<int32_t>& ids() const { return ids_; }
  bool wants_every_token() const { return golden_.Find("nll") != nullptr; }
  bool WantsHidden() const override {
    return golden_.Find("hidden") != nullptr;
  }

  absl::Status OnHidden(uint32_t layer_idx, uint64_t first_pos,
                        absl::Span<const float> rows) override {
    const JsonValue* hidden = golden_.Find("hidden");
    const JsonValue& expected =
        layer_idx == 0 ? *hidden->Find("embedding")
                       : hidden->Find("layers")->items()[layer_idx - 1];
    CheckHidden(first_pos, rows, expected, absl::StrCat("layer ", layer_idx));
    return absl::OkStatus();
  }
  absl::Status OnFinalNorm(uint64_t first_pos,
                           absl::Span<const float> rows) override {
    CheckHidden(first_pos, rows, *golden_.Find("hidden")->Find("final_norm"),
                "final norm");
    return absl::OkStatus();
  }

  absl::Status OnLogits(uint64_t pos, absl::Span<const float> logits) override {
    if (pos + 1 < num_prompt_) {
      nll_sum_ += NegativeLogLikelihood(logits, ids_[pos + 1]);
      return absl::OkStatus();
    }
    const auto best =
        static_cast<int32_t>(ArgMax(logits.data(), logits.size()));
    const size_t step = pos + 1 - num_prompt_;
    const JsonValue* eos_id = golden_.Find("eos_id");
    if (pos + 1 < ids_.size()) {
      EXPECT_EQ(best, ids_[pos + 1]) << "step " << step;
      ++num_choices_;
    } else if (eos_id != nullptr) {
      EXPECT_EQ(best, eos_id->AsInt64()) << "after the last step";
    }
    const std::vector<JsonValue>& top10 = golden_.Find("top10")->items();
    if (step >= top10.size()) return absl::OkStatus();
    for (const JsonValue& entry : top10[step].items()) {
      const size_t id = entry.items()[0].AsUint64().value_or(0);
      EXPECT_NEAR(logits[id], NumberOf(entry.items()[1]), kRealLogitTolerance)
          << "step " << step << ", token " << id;
      ++num_logits_;
    }
    return absl::OkStatus();
  }

  // What must have been seen by the end.
  void CheckSeen() const {
    EXPECT_EQ(num_choices_, ids_.size() - num_prompt_);
    EXPECT_EQ(num_logits_, 10 * golden_.Find("top10")->items().size());
    if (const JsonValue* nll = golden_.Find("nll"); nll != nullptr) {
      EXPECT_NEAR(nll_sum_ / static_cast<double>(num_prompt_ - 1),
                  NumberOf(*nll), kNllTolerance);
    }
    if (WantsHidden()) {
      EXPECT_EQ(num_hidden_,
                golden_.Find("hidden")->Find("layers")->items().size() + 2);
    }
  }

  size_t num_prompt() const { return num_prompt_; }

 private:
  static double NegativeLogLikelihood(absl::Span<const float> logits,
                                      int32_t id) {
    const double max = logits[ArgMax(logits.data(), logits.size())];
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - max);
    return std::log(sum) + max - logits[id];
  }

  void CheckHidden(uint64_t first_pos, absl::Span<const float> rows,
                   const JsonValue& expected, const std::string& what) {
    const uint64_t last = num_prompt_ - 1;
    if (last < first_pos || (last - first_pos) * dim_ >= rows.size()) return;
    const absl::Span<const float> row =
        rows.subspan((last - first_pos) * dim_, dim_);
    double square = 0;
    for (const float value : row) square += double{value} * value;
    const double norm = NumberOf(expected.items()[0]);
    const double tolerance = kRealHiddenTolerance * norm;
    EXPECT_NEAR(std::sqrt(square), norm, tolerance) << what;
    for (size_t i = 1; i < expected.items().size(); ++i) {
      EXPECT_NEAR(row[i - 1], NumberOf(expected.items()[i]), tolerance)
          << what << ", element " << i - 1;
    }
    ++num_hidden_;
  }

  const size_t num_prompt_;
  std::vector<int32_t> ids_;  // prompt and continuation
  const JsonValue& golden_;
  const size_t dim_;
  double nll_sum_ = 0;
  size_t num_choices_ = 0;
  size_t num_logits_ = 0;
  size_t num_hidden_ = 0;
};

class RealModelTest : public ::testing::TestWithParam<RealModel> {};

TEST_P(RealModelTest, EveryPromptAsTransformers) {
  const std::string path =
      absl::StrCat(LOWMEM_SOURCE_DIR, "/models/", GetParam().path);
  const absl::StatusOr<std::unique_ptr<OpenModel>> model =
      OpenModel::Open(path);
  if (absl::IsNotFound(model.status())) {
    GTEST_SKIP() << "models/" << GetParam().path << " was not fetched";
  }
  ASSERT_THAT(model, IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       ReadWholeFile(absl::StrCat(LOWMEM_TESTDATA_DIR, "/real/",
                                                  GetParam().golden),
                                     16u << 20));
  ASSERT_OK_AND_ASSIGN(const JsonValue golden, JsonValue::Parse(text));
  const std::vector<JsonValue>& prompts = golden.Find("prompts")->items();
  const std::vector<JsonValue>& expected =
      golden.Find("weights")->Find(GetParam().weights)->items();
  ASSERT_EQ(prompts.size(), expected.size());

  RunOptions options;
  options.num_threads = std::max(1u, std::thread::hardware_concurrency());
  options.context_tokens = 1024;
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(**model, options));
  for (size_t p = 0; p < prompts.size(); ++p) {
    SCOPED_TRACE(prompts[p].Find("name")->string());
    PromptChecker checker(IdsOf(prompts[p].Find("ids")), expected[p],
                          (*model)->config.dim);
    absl::Span<const int32_t> ids = checker.ids();
    run->kv->Truncate(0);
    if (!checker.wants_every_token() && checker.num_prompt() > 1) {
      // No logits are needed before the last token of the prompt.
      Recording nothing;
      const size_t num_before = checker.num_prompt() - 1;
      ASSERT_THAT(
          run->Forward(ids.first(num_before), LogitsFor::kNone, nothing),
          IsOk());
      ids.remove_prefix(num_before);
    }
    ASSERT_THAT(run->Forward(ids, LogitsFor::kEveryToken, checker), IsOk());
    checker.CheckSeen();
  }
}

std::string ModelName(const ::testing::TestParamInfo<RealModel>& param_info) {
  return param_info.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Published, RealModelTest,
    ::testing::Values(
        RealModel{"smollm2_gguf", "smollm2-135m.json", "gguf",
                  "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
        RealModel{"smollm2_bf16", "smollm2-135m.json", "bf16", "smollm2-bf16"},
        RealModel{"qwen_gguf", "qwen2.5-coder-0.5b.json", "gguf",
                  "qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"},
        RealModel{"qwen_bf16", "qwen2.5-coder-0.5b.json", "bf16",
                  "qwen2.5-coder-0.5b-bf16"}),
    ModelName);

}  // namespace
}  // namespace lowmem::testing
