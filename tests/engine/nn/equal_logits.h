// SPDX-License-Identifier: Apache-2.0
// Runs one sequence through a model in many ways and expects the same bits of
// all logits: one hash for every target with fused multiply-add, one for each
// target without.

#ifndef LOWMEM_TESTS_ENGINE_NN_EQUAL_LOGITS_H_
#define LOWMEM_TESTS_ENGINE_NN_EQUAL_LOGITS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/quant/kernels/each_target.h"
// Behind each_target.h, which comes before any header of Highway.
#include "tests/engine/nn/model_run.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {

struct WayToRun {
  int64_t target;
  bool copy;
  uint32_t num_threads;
  uint32_t chunk_tokens;
  size_t num_tokens;  // of the sequence, from its begin on
};

class EqualLogits {
 public:
  // The model must outlive this.
  EqualLogits(const OpenModel& model, std::vector<int32_t> ids)
      : model_(model), ids_(std::move(ids)) {}

  // The first run of a kind of target must be the longest; a shorter one is
  // compared as far as it goes.
  void Run(const WayToRun& way) {
    SCOPED_TRACE(::testing::Message()
                 << hwy::TargetName(way.target)
                 << (way.copy ? ", copy" : ", mmap") << ", threads "
                 << way.num_threads << ", chunk " << way.chunk_tokens);
    const std::vector<std::string> hashes = HashesOf(way);
    ASSERT_EQ(hashes.size(), way.num_tokens);
    std::vector<std::string>& expected =
        expected_[IsFusedTarget(way.target) ? 0 : way.target];
    if (expected.empty()) expected = hashes;
    ASSERT_LE(hashes.size(), expected.size());
    EXPECT_EQ(hashes.back(), expected[hashes.size() - 1]);
  }

 private:
  std::vector<std::string> HashesOf(const WayToRun& way) {
    ChooseTargets(way.target);
    LogitHashes hashes;
    auto run = ModelRun::Create(
        model_, {.copy = way.copy,
                 .num_threads = way.num_threads,
                 .chunk_tokens = way.chunk_tokens,
                 .context_tokens = static_cast<uint32_t>(ids_.size())});
    EXPECT_THAT(run, IsOk());
    if (run.ok()) {
      EXPECT_THAT(
          (*run)->Forward(absl::MakeConstSpan(ids_).first(way.num_tokens),
                          LogitsFor::kEveryToken, hashes),
          IsOk());
    }
    ChooseTargets(0);
    return hashes.by_position;
  }

  const OpenModel& model_;
  const std::vector<int32_t> ids_;
  // By target, those with fused multiply-add under 0.
  std::map<int64_t, std::vector<std::string>> expected_;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_NN_EQUAL_LOGITS_H_
