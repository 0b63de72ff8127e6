// SPDX-License-Identifier: Apache-2.0
// The promise of --ram-budget, mode by mode, from the least budget to one that
// holds the model: the bits of copy mode, a process that stays within the
// budget, a memory group of that size that suffices.
#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kNumBudgets = 8;

class BudgetTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() { model_ = new GrownModel(); }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  // Without a budget: nothing but the model.
  static BudgetRun Copy() {
    BudgetRun run;
    run.model = model_->path();
    run.mode = "copy";
    return run;
  }
  BudgetRun Run(uint64_t budget_bytes, int num_threads) const {
    BudgetRun run = Copy();
    run.mode = GetParam();
    run.budget_bytes = budget_bytes;
    run.num_threads = num_threads;
    return run;
  }
  static void SetCache(bool warm) {
    warm ? CachePages(model_->weights_path())
         : ForgetPages(model_->weights_path());
  }
  static GrownModel* model_;
};
GrownModel* BudgetTest::model_ = nullptr;

TEST_P(BudgetTest, IdsAreThoseOfCopyAndThePeakIsWithinTheBudget) {
  const std::vector<int64_t> expected = Generate(Copy()).ids;
  ASSERT_EQ(expected.size(), 3u);
  for (const uint64_t budget :
       BudgetsUpToTheModel(model_->path(), GetParam(), kNumBudgets)) {
    // The other pairs follow in groups.
    for (const bool warm : {false, true}) {
      const int num_threads = warm ? 2 : 1;
      SCOPED_TRACE(absl::StrCat(budget, " bytes, ", num_threads, " threads"));
      SetCache(warm);
      const BudgetResult result = Generate(Run(budget, num_threads));
      EXPECT_EQ(result.ids, expected);
      EXPECT_EQ(At(result.stats, "mode").string(), GetParam());
      if (kIsSanitized) continue;
      EXPECT_LE(result.process.peak_bytes, budget);
    }
  }
}

TEST_P(BudgetTest, TraceHasTheBitsOfCopy) {
  // A trace has the logits of every position, which no generation asks for.
  constexpr uint64_t kTraceBytes = 64 << 10;
  const std::string expected = Trace(Copy());
  ASSERT_GT(expected.size(), 4u * 512 * sizeof(float));
  int i = 0;
  for (const uint64_t budget :
       BudgetsUpToTheModel(model_->path(), GetParam(), kNumBudgets)) {
    SetCache(/*warm=*/i / 2 % 2 == 0);
    EXPECT_TRUE(Trace(Run(budget + kTraceBytes, 1 + i % 2)) == expected)
        << budget;
    ++i;
  }
}

// 64 runs in both modes together.
TEST_P(BudgetTest, AGroupOfTheBudgetIsEnough) {
  std::string reason;
  if (!CanLimit(&reason)) GTEST_SKIP() << reason;
  const std::vector<int64_t> expected = Generate(Copy()).ids;
  for (const uint64_t budget :
       BudgetsUpToTheModel(model_->path(), GetParam(), kNumBudgets)) {
    for (const int num_threads : {1, 2}) {
      for (const bool warm : {false, true}) {
        SCOPED_TRACE(absl::StrCat(budget, " bytes, ", num_threads, " threads, ",
                                  warm ? "warm" : "cold"));
        SetCache(warm);
        BudgetRun run = Run(budget, num_threads);
        run.limit_bytes = budget;
        const BudgetResult result = Generate(run);
        EXPECT_EQ(result.ids, expected);
        EXPECT_EQ(result.group.num_oom_kills, 0u);
      }
    }
  }
}

TEST_P(BudgetTest, ManyThreadsAreWithinTheBudgetToo) {
  constexpr int kNumThreads = 256;
  std::string reason;
  if (!CanLimit(&reason)) GTEST_SKIP() << reason;
  BudgetRun run =
      Run(LeastBudget(model_->path(), GetParam(), kNumThreads), kNumThreads);
  run.limit_bytes = run.budget_bytes;
  const BudgetResult result = Generate(run);
  EXPECT_EQ(result.ids, Generate(Copy()).ids);
  EXPECT_EQ(result.group.num_oom_kills, 0u);
  if (kIsSanitized) return;
  EXPECT_LE(result.process.peak_bytes, *run.budget_bytes);
}

// A long chunk is what threads need work space for.
TEST_P(BudgetTest, ManyThreadsAndALongPromptAreWithinTheBudgetToo) {
  constexpr int kNumThreads = 64;
  std::string reason;
  if (!CanLimit(&reason)) GTEST_SKIP() << reason;
  BudgetRun free = Copy();
  free.prompt_ids.clear();
  for (int64_t i = 0; i < 300; ++i) free.prompt_ids.push_back(3 + i % 200);
  const std::vector<int64_t> expected = Generate(free).ids;
  const uint64_t least = LeastBudget(model_->path(), GetParam(), kNumThreads);
  for (const uint64_t mib : {3, 6, 12}) {
    SCOPED_TRACE(absl::StrCat(mib, " MiB more than the least"));
    BudgetRun run = Run(least + (mib << 20), kNumThreads);
    run.prompt_ids = free.prompt_ids;
    run.limit_bytes = run.budget_bytes;
    const BudgetResult result = Generate(run);
    EXPECT_EQ(result.ids, expected);
    EXPECT_EQ(result.group.num_oom_kills, 0u);
    if (kIsSanitized) continue;
    EXPECT_LE(result.process.peak_bytes, *run.budget_bytes);
  }
}

TEST_P(BudgetTest, OnePageLessThanTheLeastIsRefused) {
  const uint64_t least = LeastBudget(model_->path(), GetParam());
  const SubprocessResult result = RunCli(ArgsOf(Run(least - 4096, 2)));
  EXPECT_TRUE(IsRefusal(result, 6, model_->path()));
  for (const char* part : {"needed ", "allowed ", "largest item: "}) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
}

TEST_P(BudgetTest, WhatIsNoBudgetIsWrongUsageAndOneByteIsTooLittle) {
  const struct {
    const char* budget;
    int exit_code;
  } kCases[] = {{"0", 2}, {"-1", 2}, {"10E", 2}, {"abc", 2}, {"1", 6}};
  for (const auto& c : kCases) {
    EXPECT_TRUE(IsRefusal(RunCli({"-m", model_->path(), "--mode", GetParam(),
                                  absl::StrCat("--ram-budget=", c.budget),
                                  "generate", "--prompt-ids", "1"}),
                          c.exit_code, c.exit_code == 2 ? c.budget : "1 B"));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BudgetTest, ::testing::Values("mmap", "stream"),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace lowmem::testing
