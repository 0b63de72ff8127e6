// SPDX-License-Identifier: Apache-2.0
// Runs of this very program: of this test, that is.
#include "engine/cli/child_process.h"

#include <csignal>
#include <cstdio>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using ::lowmem::testing::Fails;

// Holds the test with a sanitizer's shadow, too.
constexpr uint64_t kLimitBytes = 128 << 20;

std::vector<std::string> Only(const std::string& test) {
  return {"--gtest_also_run_disabled_tests",
          "--gtest_filter=AsChildTest.DISABLED_" + test};
}

// What the children do; no tests by themselves.
TEST(AsChildTest, DISABLED_Speaks) { std::puts("spoken"); }
TEST(AsChildTest, DISABLED_Dies) { std::raise(SIGTERM); }
TEST(AsChildTest, DISABLED_TakesTwiceTheLimit) {
  const std::vector<char> bytes(2 * kLimitBytes, 1);
  std::printf("%d\n", bytes.back());
}

TEST(ChildProcessTest, OutputOfAChildIsReturned) {
  ASSERT_OK_AND_ASSIGN(const std::string out, RunSelf(Only("Speaks"), nullptr));
  EXPECT_NE(out.find("spoken\n"), std::string::npos) << out;
}

TEST(ChildProcessTest, OutputOfAChildInAGroupIsReturned) {
  const auto group = MemoryGroup::Create(kLimitBytes);
  if (!group.ok()) GTEST_SKIP() << group.status().message();
  ASSERT_OK_AND_ASSIGN(const std::string out,
                       RunSelf(Only("Speaks"), group->get()));
  EXPECT_NE(out.find("spoken\n"), std::string::npos) << out;
  EXPECT_GT((*group)->Usage().peak_bytes.value_or(kLimitBytes), 0u);
}

TEST(ChildProcessTest, ASignalIsTold) {
  EXPECT_THAT(RunSelf(Only("Dies"), nullptr),
              Fails(absl::StatusCode::kInternal, "ended with signal 15"));
}

TEST(ChildProcessTest, AKillForTheLimitIsAnErrorOfTheRun) {
  const auto group = MemoryGroup::Create(kLimitBytes);
  if (!group.ok()) GTEST_SKIP() << group.status().message();
  EXPECT_THAT(
      RunSelf(Only("TakesTwiceTheLimit"), group->get()),
      Fails(absl::StatusCode::kResourceExhausted, "killed by the kernel"));
  EXPECT_EQ((*group)->Usage().num_oom_kills, 1u);
}

}  // namespace
}  // namespace lowmem::cli
