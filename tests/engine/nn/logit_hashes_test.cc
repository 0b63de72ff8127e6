// SPDX-License-Identifier: Apache-2.0
// The logits of the tiny models have the bits that tests/testdata says, on
// every target with fused multiply-add of every architecture: what runs of one
// machine, compared with one another, cannot show.
#include <string>

#include "tests/quant/kernels/each_target.h"
// Behind each_target.h, which comes before any header of Highway.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/file.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

struct Format {
  KvFormat format;
  const char* name;
};
constexpr Format kFormats[] = {
    {KvFormat::kF32, "f32"}, {KvFormat::kBF16, "bf16"}, {KvFormat::kQ8, "q8"}};

class LogitHashesTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = absl::StrCat(LOWMEM_TESTDATA_DIR, "/", GetParam());
    const bool is_gguf = absl::StartsWith(GetParam(), "tiny-gguf/");
    ASSERT_OK_AND_ASSIGN(model_,
                         OpenModel::Open(is_gguf ? path + ".gguf" : path));
    const std::vector<GoldenPrompt> prompts =
        ReadGoldenPrompts(path + (is_gguf ? ".json" : "/golden.json"));
    ASSERT_EQ(prompts.size(), 2u);
    ids_ = prompts[1].ids;
  }
  void TearDown() override { ChooseTargets(0); }

  std::string HashWith(KvFormat format) {
    const auto run =
        ModelRun::Create(*model_, {.chunk_tokens = 7, .kv_format = format});
    EXPECT_THAT(run, IsOk());
    LogitHashes hashes;
    EXPECT_THAT((*run)->Forward(ids_, LogitsFor::kEveryToken, hashes), IsOk());
    EXPECT_EQ(hashes.by_position.size(), ids_.size());
    return hashes.by_position.empty() ? "" : hashes.by_position.back();
  }

  std::unique_ptr<OpenModel> model_;
  std::vector<int32_t> ids_;
};

TEST_P(LogitHashesTest, AreThoseOfEveryArchitecture) {
  ASSERT_OK_AND_ASSIGN(
      const std::string text,
      ReadWholeFile(absl::StrCat(LOWMEM_TESTDATA_DIR, "/logit_hashes.json"),
                    1u << 20));
  ASSERT_OK_AND_ASSIGN(const JsonValue json, JsonValue::Parse(text));
  const JsonValue* const hashes = json.Find(GetParam());
  ASSERT_NE(hashes, nullptr);
  for (const int64_t target : TestedTargets()) {
    if (!IsFusedTarget(target)) continue;
    ChooseTargets(target);
    for (const Format& format : kFormats) {
      const JsonValue* const hash = hashes->Find(format.name);
      ASSERT_NE(hash, nullptr) << format.name;
      EXPECT_EQ(HashWith(format.format), hash->string())
          << hwy::TargetName(target) << ", keys and values in " << format.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, LogitHashesTest,
    ::testing::Values("tiny/llama", "tiny/llama3", "tiny/llama_linear",
                      "tiny/qwen2", "tiny-gguf/llama-f16",
                      "tiny-gguf/llama-q4_0", "tiny-gguf/llama-mixed",
                      "tiny-gguf/llama3-bf16", "tiny-gguf/qwen2-f32",
                      "tiny-gguf/qwen2-q8_0"),
    [](const ::testing::TestParamInfo<const char*>& param_info) {
      return PathAsName(param_info.param);
    });

}  // namespace
}  // namespace lowmem::testing
