// SPDX-License-Identifier: Apache-2.0
// Runs of this very program: of this test, that is.
#include "engine/cli/child_process.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using ::lowmem::testing::Fails;

// Holds the test with a sanitizer's shadow, too.
constexpr uint64_t kLimitBytes = 128 << 20;

constexpr char kSpeak[] = "--as-child=speak";
constexpr char kDie[] = "--as-child=die";
constexpr char kTakeTwiceTheLimit[] = "--as-child=take";

void Speak() { std::puts("spoken"); }
void Die() { std::raise(SIGTERM); }
void TakeTwiceTheLimit() {
  const std::vector<char> bytes(2 * kLimitBytes, 1);
  std::printf("%d\n", bytes.back());
}

// What a child does instead of testing, before main.
bool ActAsChild() {
  std::ifstream cmdline("/proc/self/cmdline");
  const std::string args{std::istreambuf_iterator<char>(cmdline), {}};
  const std::pair<const char*, void (*)()> kActs[] = {
      {kSpeak, Speak}, {kDie, Die}, {kTakeTwiceTheLimit, TakeTwiceTheLimit}};
  for (const auto& [arg, act] : kActs) {
    if (args.find(arg) == std::string::npos) continue;
    act();
    std::fflush(stdout);
    _exit(0);
  }
  return false;
}
[[maybe_unused]] const bool is_child = ActAsChild();

TEST(ChildProcessTest, OutputOfAChildIsReturned) {
  ASSERT_OK_AND_ASSIGN(const std::string out, RunSelf({kSpeak}, nullptr));
  EXPECT_EQ(out, "spoken\n");
}

TEST(ChildProcessTest, OutputOfAChildInAGroupIsReturned) {
  const auto group = MemoryGroup::Create(kLimitBytes);
  if (!group.ok()) GTEST_SKIP() << group.status().message();
  ASSERT_OK_AND_ASSIGN(const std::string out, RunSelf({kSpeak}, group->get()));
  EXPECT_EQ(out, "spoken\n");
  EXPECT_GT((*group)->Usage().peak_bytes.value_or(kLimitBytes), 0u);
}

TEST(ChildProcessTest, ASignalIsTold) {
  EXPECT_THAT(RunSelf({kDie}, nullptr),
              Fails(absl::StatusCode::kInternal, "ended with signal 15"));
}

TEST(ChildProcessTest, AKillForTheLimitIsAnErrorOfTheRun) {
  const auto group = MemoryGroup::Create(kLimitBytes);
  if (!group.ok()) GTEST_SKIP() << group.status().message();
  EXPECT_THAT(
      RunSelf({kTakeTwiceTheLimit}, group->get()),
      Fails(absl::StatusCode::kResourceExhausted, "killed by the kernel"));
  EXPECT_EQ((*group)->Usage().num_oom_kills, 1u);
}

}  // namespace
}  // namespace lowmem::cli
