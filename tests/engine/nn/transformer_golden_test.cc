// SPDX-License-Identifier: Apache-2.0
// The tiny models against values that transformers computed in float32.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/golden_tensors.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

// One name per parameterised case; '-' is no letter to GoogleTest.
std::string CaseName(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class SafetensorsGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/", GetParam());
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(folder_));
    prompts_ = ReadGoldenPrompts(absl::StrCat(folder_, "/golden.json"));
    ASSERT_EQ(prompts_.size(), 2u);
  }

  std::string folder_;
  std::unique_ptr<OpenModel> model_;
  std::vector<GoldenPrompt> prompts_;
};

TEST_P(SafetensorsGoldenTest, LogitsOfEveryPosition) {
  const GoldenTensors golden(absl::StrCat(folder_, "/golden.safetensors"));
  for (size_t p = 0; p < prompts_.size(); ++p) {
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
    Recording recording;
    ASSERT_THAT(
        run->Forward(prompts_[p].ids, LogitsFor::kEveryToken, recording),
        IsOk());
    ExpectNear(recording.AllLogits(),
               golden.Floats(absl::StrCat("p", p, ".logits")), kLogitTolerance,
               absl::StrCat("logits of prompt ", p));
  }
}

// Variants have the hidden states of the folder that they are a variant of.
std::string FolderOfHidden(const std::string& name) {
  if (name == "llama3_rope_parameters") return "llama3";
  return name.substr(0, name.find("_sharded"));
}

TEST_P(SafetensorsGoldenTest, HiddenStates) {
  const GoldenTensors golden(absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/",
                                          FolderOfHidden(GetParam()),
                                          "/golden.safetensors"));
  for (size_t p = 0; p < prompts_.size(); ++p) {
    const std::string prefix = absl::StrCat("p", p, ".hidden.");
    // The second prompt has them only where the length of the sequence matters.
    if (p > 0 && golden.Floats(prefix + "norm").empty()) continue;
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
    Recording recording;
    recording.wants_hidden = true;
    ASSERT_THAT(run->Forward(prompts_[p].ids, LogitsFor::kNone, recording),
                IsOk());
    EXPECT_EQ(recording.hidden.size(), model_->config.num_layers + 1u);
    const auto compare = [&](const std::vector<float>& actual,
                             const std::string& name) {
      const std::vector<float> expected = golden.Floats(name);
      ExpectNear(actual, expected, kHiddenTolerance * RootMeanSquare(expected),
                 name);
    };
    for (const auto& [layer_idx, rows] : recording.hidden) {
      compare(rows, absl::StrCat(prefix, layer_idx));
    }
    compare(recording.final_norm, prefix + "norm");
  }
}

TEST_P(SafetensorsGoldenTest, GreedyIds) {
  for (const GoldenPrompt& prompt : prompts_) {
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
    ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids,
                         run->Greedy(prompt.ids, prompt.greedy.size()));
    EXPECT_EQ(ids, prompt.greedy);
    EXPECT_EQ(ids.size(), 24u);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, SafetensorsGoldenTest,
                         ::testing::Values("llama", "llama3",
                                           "llama3_rope_parameters",
                                           "llama_linear", "qwen2",
                                           "qwen2_sharded",
                                           "qwen2_sharded_scattered"),
                         CaseName);

class GgufGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GgufGoldenTest, LogitsAndGreedyIds) {
  const std::string stem =
      absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny-gguf/", GetParam());
  ASSERT_OK_AND_ASSIGN(auto model, OpenModel::Open(stem + ".gguf"));
  const GoldenTensors golden(stem + ".safetensors");
  const std::vector<GoldenPrompt> prompts = ReadGoldenPrompts(stem + ".json");
  ASSERT_EQ(prompts.size(), 2u);

  ASSERT_OK_AND_ASSIGN(auto first, ModelRun::Create(*model, RunOptions()));
  Recording every;
  ASSERT_THAT(first->Forward(prompts[0].ids, LogitsFor::kEveryToken, every),
              IsOk());
  ExpectNear(every.AllLogits(), golden.Floats("p0.logits"), kLogitTolerance,
             "logits of prompt 0");

  ASSERT_OK_AND_ASSIGN(auto second, ModelRun::Create(*model, RunOptions()));
  Recording last;
  ASSERT_THAT(second->Forward(prompts[1].ids, LogitsFor::kLastToken, last),
              IsOk());
  ExpectNear(last.AllLogits(), golden.Floats("p1.logits_last"), kLogitTolerance,
             "last logits of prompt 1");

  for (const GoldenPrompt& prompt : prompts) {
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model, RunOptions()));
    ASSERT_OK_AND_ASSIGN(const std::vector<int32_t> ids,
                         run->Greedy(prompt.ids, prompt.clear_steps));
    const std::vector<int32_t> expected(
        prompt.greedy.begin(), prompt.greedy.begin() + prompt.clear_steps);
    EXPECT_EQ(ids, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GgufGoldenTest,
                         ::testing::Values("llama-f16", "llama-q4_0",
                                           "llama-mixed", "llama3-bf16",
                                           "qwen2-f32", "qwen2-q8_0"),
                         CaseName);

}  // namespace
}  // namespace lowmem::testing
