// SPDX-License-Identifier: Apache-2.0
// One hash of all logits for every way of reading, number of threads, chunk and
// instruction set with fused multiply-add; one for each without.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/equal_logits.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

class TargetsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TargetsTest, OneHashOfAllLogits) {
  ASSERT_OK_AND_ASSIGN(
      const auto model,
      OpenModel::Open(absl::StrCat(LOWMEM_TESTDATA_DIR, "/", GetParam())));
  // Two chunks of 64, and no whole number of pages or vectors.
  constexpr size_t kNumTokens = 75;
  const std::vector<int32_t> golden =
      ReadGoldenPrompts(
          absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama/golden.json"))
          .at(1)
          .ids;
  std::vector<int32_t> ids(kNumTokens);
  for (size_t i = 0; i < kNumTokens; ++i)
    ids[i] = golden[7 * i % golden.size()];

  EqualLogits equal(*model, ids);
  for (const int64_t target : TestedTargets()) {
    for (const bool copy : {false, true}) {
      for (const uint32_t num_threads : {1u, 2u, 3u, 8u}) {
        for (const uint32_t chunk_tokens : {1u, 7u, 64u, 512u}) {
          equal.Run({.target = target,
                     .copy = copy,
                     .num_threads = num_threads,
                     .chunk_tokens = chunk_tokens,
                     .num_tokens = kNumTokens});
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, TargetsTest,
    ::testing::Values("tiny/llama", "tiny/llama3",
                      "tiny/llama3_rope_parameters", "tiny/llama_linear",
                      "tiny/qwen2", "tiny/qwen2_sharded",
                      "tiny/qwen2_sharded_scattered",
                      "tiny-gguf/llama-f16.gguf", "tiny-gguf/llama-mixed.gguf",
                      "tiny-gguf/llama-q4_0.gguf", "tiny-gguf/llama3-bf16.gguf",
                      "tiny-gguf/qwen2-f32.gguf", "tiny-gguf/qwen2-q8_0.gguf"),
    [](const auto& param) { return PathAsName(param.param); });

}  // namespace
}  // namespace lowmem::testing
