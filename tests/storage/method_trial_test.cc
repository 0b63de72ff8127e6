// SPDX-License-Identifier: Apache-2.0
#include "storage/method_trial.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

constexpr uint64_t kBytes = 1 << 20;

// Records stretches at the rates given for each method, fully waited for, until
// the trial is settled. Returns how many.
int RunTrial(MethodTrial& trial, const std::vector<double>& bytes_per_s) {
  int num_stretches = 0;
  while (!trial.is_settled() && num_stretches < 100) {
    const double seconds = kBytes / bytes_per_s[trial.method()];
    trial.Record(kBytes, seconds, seconds);
    ++num_stretches;
  }
  return num_stretches;
}

TEST(MethodTrialTest, ChoosesTheFastestButALaterOneOnlyWhenClearlyFaster) {
  const struct {
    std::string name;
    std::vector<double> bytes_per_s;
    size_t method;
  } kCases[] = {
      {"one", {1e9}, 0},
      {"first", {3e9, 2e9, 1e9}, 0},
      {"second", {1e9, 2e9, 1.5e9}, 1},
      {"third", {1e9, 0.5e9, 1.2e9}, 2},
      {"equal", {1e9, 1e9, 1e9}, 0},
      {"hardly faster", {1e9, 1.14e9, 1.14e9}, 0},
      {"hardly faster than the second", {1e9, 1.2e9, 1.3e9}, 1},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    MethodTrial trial(c.bytes_per_s.size());
    EXPECT_FALSE(trial.bytes_per_s().has_value());
    const int expected = c.bytes_per_s.size() == 1
                             ? 1
                             : static_cast<int>(2 * c.bytes_per_s.size());
    EXPECT_EQ(RunTrial(trial, c.bytes_per_s), expected);
    EXPECT_EQ(trial.method(), c.method);
    EXPECT_NEAR(trial.bytes_per_s().value_or(0), c.bytes_per_s[c.method], 1);
  }
}

TEST(MethodTrialTest, OneDisturbedStretchDoesNotDecide) {
  MethodTrial trial(2);
  trial.Record(kBytes, 0.1, 0.1);  // the first method, disturbed
  trial.Record(kBytes, 0.01, 0.01);
  trial.Record(kBytes, 0.01, 0.01);
  trial.Record(kBytes, 0.01, 0.01);
  EXPECT_TRUE(trial.is_settled());
  EXPECT_EQ(trial.method(), 0u);
}

TEST(MethodTrialTest, StretchesInWhichTheDiskWasNotWaitedForDoNotCount) {
  MethodTrial trial(3);
  for (size_t i = 0; i < MethodTrial::kMaxIdleStretches; ++i) {
    EXPECT_FALSE(trial.is_settled());
    EXPECT_EQ(trial.method(), 0u);
    trial.Record(kBytes, 0.01, 0.004);
  }
  EXPECT_TRUE(trial.is_settled());
  EXPECT_FALSE(trial.bytes_per_s().has_value());
  trial.Record(kBytes, 0.01, 0.01);  // measured for those who ask
  EXPECT_EQ(trial.method(), 0u);
  EXPECT_NEAR(trial.bytes_per_s().value_or(0), kBytes / 0.01, 1);
}

TEST(MethodTrialTest, TheRateIsThatOfAllStretchesThatCountSinceTheChoice) {
  MethodTrial trial(1);
  trial.Record(kBytes, 0.1, 0.1);  // as reading began
  EXPECT_NEAR(trial.bytes_per_s().value_or(0), kBytes / 0.1, 1);
  trial.Record(kBytes, 0.01, 0.01);
  EXPECT_NEAR(trial.bytes_per_s().value_or(0), kBytes / 0.01, 1);
  trial.Record(kBytes, 0.01, 0.001);  // not waited for
  trial.Record(kBytes, 0.03, 0.02);
  EXPECT_NEAR(trial.bytes_per_s().value_or(0), 2 * kBytes / 0.04, 1);
}

TEST(MethodTrialTest, ASlowDiskIsNotTriedForLong) {
  MethodTrial trial(3);
  double total_s = 0;
  while (!trial.is_settled()) {
    trial.Record(kBytes, 0.4, 0.4);
    total_s += 0.4;
  }
  EXPECT_LE(total_s, MethodTrial::kMaxTrialSeconds + 0.4);
  EXPECT_EQ(trial.method(), 0u);
}

TEST(MethodTrialTest, AMethodThatWasNeverTriedIsNotChosen) {
  MethodTrial trial(2);
  trial.Record(kBytes, 1.5, 1.5);
  EXPECT_TRUE(trial.is_settled());
  EXPECT_EQ(trial.method(), 0u);
}

}  // namespace
}  // namespace lowmem
