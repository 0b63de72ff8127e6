// SPDX-License-Identifier: Apache-2.0
// A published model in memory groups of its budget: the ids and bits of copy
// mode, a peak within the budget, no more read than the plan says. Skipped by
// name where the model was not fetched or no group can be made.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"

namespace lowmem::testing {
namespace {

constexpr char kModel[] = "models/smollm2-bf16";
constexpr int kNumBudgets = 8;

struct RealBudgetCase {
  const char* name;
  const char* mode;
  friend void PrintTo(const RealBudgetCase& row, std::ostream* os) {
    *os << row.name;
  }
};

class RealBudgetTest : public ::testing::TestWithParam<RealBudgetCase> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_)) {
      GTEST_SKIP() << kModel << " is absent; ./dev fetch gets it";
    }
    std::string reason;
    if (!CanLimit(&reason)) GTEST_SKIP() << reason;
    ForgetPages(weights_);
  }
  BudgetRun Copy() const {
    BudgetRun run;
    run.model = model_;
    run.mode = "copy";
    run.prompt_ids = {9707, 11, 358, 1079};
    return run;
  }
  BudgetRun Run(uint64_t budget_bytes) const {
    BudgetRun run = Copy();
    run.mode = GetParam().mode;
    run.budget_bytes = run.limit_bytes = budget_bytes;
    return run;
  }
  uint64_t WeightBytes() const { return std::filesystem::file_size(weights_); }

  const std::string model_ = absl::StrCat(LOWMEM_SOURCE_DIR, "/", kModel);
  const std::string weights_ = model_ + "/model.safetensors";
};

TEST_P(RealBudgetTest, IdsPeakAndGroupUnderEveryBudget) {
  const std::vector<int64_t> expected = Generate(Copy()).ids;
  int i = 0;
  for (const uint64_t budget :
       BudgetsUpToTheModel(model_, GetParam().mode, kNumBudgets)) {
    SCOPED_TRACE(budget);
    BudgetRun run = Run(budget);
    run.num_threads = 1 + i % 2;
    i / 2 % 2 == 0 ? ForgetPages(weights_) : CachePages(weights_);
    ++i;
    const BudgetResult result = Generate(run);
    EXPECT_EQ(result.ids, expected);
    EXPECT_LE(result.process.peak_bytes, budget);
    EXPECT_EQ(result.group.num_oom_kills, 0u);
  }
}

TEST_P(RealBudgetTest, TraceHasTheBitsOfCopy) {
  const std::string expected = Trace(Copy());
  ASSERT_GT(expected.size(), 4u * 49152 * sizeof(float));
  for (const uint64_t mib : {24, 100, 200}) {
    ForgetPages(weights_);
    EXPECT_TRUE(Trace(Run(mib << 20)) == expected) << mib << " MiB";
  }
}

TEST_P(RealBudgetTest, ATokenReadsWhatDoesNotStay) {
  BudgetRun run = Run(WeightBytes() * 52 / 100);
  run.num_new_tokens = 2;
  const BudgetResult few = Generate(run);
  ForgetPages(weights_);
  constexpr int kMore = 4;
  run.num_new_tokens += kMore;
  const BudgetResult more = Generate(run);
  const uint64_t resident_bytes = more.Stat("resident_weight_bytes");
  EXPECT_GT(resident_bytes, WeightBytes() * 40 / 100);
  const double read_a_token =
      (static_cast<double>(more.process.storage_read_bytes) -
       static_cast<double>(few.process.storage_read_bytes)) /
      kMore;
  EXPECT_LE(read_a_token, 1.01 * (WeightBytes() - resident_bytes));
}

TEST_P(RealBudgetTest, AColdFirstTokenReadsTheWeightsOnce) {
  for (const uint64_t budget :
       {LeastBudget(model_, GetParam().mode), WeightBytes() * 52 / 100}) {
    ForgetPages(weights_);
    BudgetRun run = Run(budget);
    run.num_new_tokens = 1;
    EXPECT_LE(Generate(run).process.storage_read_bytes, 1.05 * WeightBytes())
        << budget;
  }
}

TEST_P(RealBudgetTest, APromptOf512TokensIsOnePassIn64MiB) {
  BudgetRun run = Run(64 << 20);
  run.num_new_tokens = 1;
  run.prompt_ids.clear();
  for (int i = 0; i < 512; ++i) run.prompt_ids.push_back(100 + i * 79 % 20000);
  const BudgetResult result = Generate(run);
  EXPECT_LE(result.process.storage_read_bytes, 1.1 * WeightBytes());
  EXPECT_LE(result.process.peak_bytes, 64u << 20);
}

INSTANTIATE_TEST_SUITE_P(
    RealBudgets, RealBudgetTest,
    ::testing::Values(RealBudgetCase{"SmolLM2Mmap", "mmap"},
                      RealBudgetCase{"SmolLM2Stream", "stream"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace lowmem::testing
