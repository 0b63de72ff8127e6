// SPDX-License-Identifier: Apache-2.0
// A published model has one hash of all logits, as transformer_targets_test
// says of tiny ones. Every pair of way of reading, threads, chunk and
// instruction set is among the runs, not every combination: they take seconds.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/equal_logits.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

constexpr uint32_t kThreads[] = {2, 1, 3, 8};
constexpr uint32_t kChunks[] = {512, 64, 7, 1};
// Enough for two chunks, or more than two where they are small.
constexpr size_t kNumTokens[] = {70, 70, 15, 3};

struct PublishedModel {
  const char* name;
  const char* path;  // in models
};

class RealTargetsTest : public ::testing::TestWithParam<PublishedModel> {};

TEST_P(RealTargetsTest, OneHashOfAllLogits) {
  const auto model = OpenModel::Open(
      absl::StrCat(LOWMEM_SOURCE_DIR, "/models/", GetParam().path));
  if (absl::IsNotFound(model.status())) {
    GTEST_SKIP() << "models/" << GetParam().path << " was not fetched";
  }
  ASSERT_THAT(model, IsOk());
  std::vector<int32_t> ids(kNumTokens[0]);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(1 + 6007 * i % 49000);
  }
  EqualLogits equal(**model, ids);

  std::vector<int64_t> fused;
  for (const int64_t target : TestedTargets()) {
    if (IsFusedTarget(target)) {
      fused.push_back(target);
      continue;
    }
    // Each number of threads once and each chunk once, with few tokens: these
    // targets are slow.
    for (size_t i = 0; i < std::size(kChunks); ++i) {
      equal.Run({.target = target,
                 .copy = i % 2 != 0,
                 .num_threads = kThreads[i],
                 .chunk_tokens = kChunks[i],
                 .num_tokens = std::min<size_t>(kNumTokens[i], 9)});
    }
  }
  if (fused.empty()) return;
  for (size_t c = 0; c < std::size(kChunks); ++c) {
    for (size_t t = 0; t < std::size(kThreads); ++t) {
      // Each chunk and each number of threads meets both ways of reading with
      // each of two instruction sets.
      equal.Run({.target = fused[(c + t) / 2 % fused.size()],
                 .copy = (c + t) % 2 != 0,
                 .num_threads = kThreads[t],
                 .chunk_tokens = kChunks[c],
                 .num_tokens = kNumTokens[c]});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Published, RealTargetsTest,
    ::testing::Values(PublishedModel{"smollm2_gguf",
                                     "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
                      PublishedModel{"smollm2_bf16", "smollm2-bf16"}),
    [](const ::testing::TestParamInfo<PublishedModel>& param_info) {
      return std::string(param_info.param.name);
    });

}  // namespace
}  // namespace lowmem::testing
