// SPDX-License-Identifier: Apache-2.0
// What a budget costs in bytes from storage, counted by the kernel: a token
// reads what does not stay in memory and hardly more, a first token and a
// prompt read the weights once.
#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"

namespace lowmem::testing {
namespace {

class BudgetReadsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::string reason;
    if (!CanLimit(&reason)) GTEST_SKIP() << reason;
    ForgetPages(model_.weights_path());
    const BudgetRun probe = Run(64 << 20);
    if (Generate(probe).process.storage_read_bytes == 0) {
      GTEST_SKIP() << "the kernel does not count what is read from storage";
    }
    ForgetPages(model_.weights_path());
  }
  // In a group of the budget: pages that are kept in spite of it are read
  // again.
  BudgetRun Run(uint64_t budget_bytes) const {
    BudgetRun run;
    run.model = model_.path();
    run.mode = GetParam();
    run.budget_bytes = run.limit_bytes = budget_bytes;
    return run;
  }
  uint64_t Share(double share) const {
    return static_cast<uint64_t>(share * model_.weight_bytes());
  }
  // Config and tokenizer; blocks at both ends of what is read directly, 4 KiB
  // for each of some 60 ranges.
  static constexpr uint64_t kAroundBytes = 512 << 10;
  // Of a next token, while the one before is not yet known to be the last: a
  // tenth of this model, a hundredth of a large one.
  static constexpr uint64_t kAheadBytes = 4 << 20;
  const GrownModel model_;
};

TEST_P(BudgetReadsTest, ATokenReadsWhatDoesNotStay) {
  BudgetRun run = Run(Share(0.52));
  run.num_new_tokens = 2;
  const BudgetResult few = Generate(run);
  ForgetPages(model_.weights_path());
  constexpr int kMore = 10;
  run.num_new_tokens += kMore;
  const BudgetResult more = Generate(run);
  const uint64_t resident_bytes = more.Stat("resident_weight_bytes");
  EXPECT_GT(resident_bytes, model_.weight_bytes() / 8);
  const double read_a_token =
      (static_cast<double>(more.process.storage_read_bytes) -
       static_cast<double>(few.process.storage_read_bytes)) /
      kMore;
  EXPECT_LE(read_a_token,
            1.01 * (model_.weight_bytes() - resident_bytes) + kAroundBytes);
  EXPECT_GT(read_a_token, 0);
}

TEST_P(BudgetReadsTest, AColdFirstTokenReadsTheWeightsOnce) {
  for (const uint64_t budget :
       {LeastBudget(model_.path(), GetParam()), Share(0.52)}) {
    BudgetRun run = Run(budget);
    run.num_new_tokens = 1;
    ForgetPages(model_.weights_path());
    const BudgetResult result = Generate(run);
    EXPECT_LE(result.process.storage_read_bytes,
              1.05 * model_.weight_bytes() + kAroundBytes + kAheadBytes)
        << budget;
    EXPECT_EQ(At(result.stats, "prefill_weight_passes").AsDouble(), 1)
        << budget;
  }
}

TEST_P(BudgetReadsTest, APromptOf512TokensReadsTheWeightsOnce) {
  // Activations of 512 tokens take a third of this model.
  BudgetRun run = Run(Share(0.8));
  run.num_new_tokens = 1;
  run.prompt_ids.clear();
  for (int i = 0; i < 512; ++i) run.prompt_ids.push_back(i * 37 % 300);
  const BudgetResult result = Generate(run);
  EXPECT_LE(result.process.storage_read_bytes,
            1.1 * model_.weight_bytes() + kAroundBytes + kAheadBytes);
  EXPECT_EQ(At(result.stats, "prefill_weight_passes").AsDouble(), 1);
}

INSTANTIATE_TEST_SUITE_P(Modes, BudgetReadsTest,
                         ::testing::Values("mmap", "stream"),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace lowmem::testing
