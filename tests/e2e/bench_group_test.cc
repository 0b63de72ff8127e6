// SPDX-License-Identifier: Apache-2.0
// bench under a limit leaves no control group behind, however it ends.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"

namespace lowmem::testing {
namespace {

namespace fs = std::filesystem;

// The folder of a group that the process made; "" when there is none.
std::string GroupOf(pid_t pid) {
  const std::string prefix = absl::StrCat("lowmem-", pid, "-");
  std::error_code error;
  for (fs::recursive_directory_iterator entry("/sys/fs/cgroup", error), end;
       !error && entry != end; entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), prefix)) {
      return entry->path();
    }
  }
  return "";
}

class BenchGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    if (!CanLimit(&reason)) GTEST_SKIP() << reason;
    model_ = CopyTiny("llama", folder_);
    ReplaceInFile(model_ + "/config.json", "\"max_position_embeddings\": 512",
                  "\"max_position_embeddings\": 1000000");
  }
  SubprocessOptions Bench(int num_new_tokens) const {
    SubprocessOptions options;
    options.program = Cli();
    options.args = {"-m",
                    model_,
                    "bench",
                    "--modes",
                    "copy",
                    "--budgets",
                    "512M",
                    "-p",
                    "1",
                    "-n",
                    absl::StrCat(num_new_tokens)};
    return options;
  }
  const TempFolder folder_;
  std::string model_;
};

TEST_F(BenchGroupTest, NothingIsLeftAtTheEnd) {
  Subprocess process(Bench(2));
  const pid_t pid = process.pid();
  EXPECT_EQ(process.Wait().exit_code, 0);
  EXPECT_EQ(GroupOf(pid), "");
}

// A closed terminal sends its signal more than once.
TEST_F(BenchGroupTest, NothingIsLeftAfterASignal) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    Subprocess process(Bench(200'000));  // hours
    const pid_t pid = process.pid();
    while (GroupOf(pid).empty()) {
      ASSERT_FALSE(process.StatusBytes("VmRSS") == std::nullopt)
          << "ended before it made a group";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.Signal(signal_number);
    process.Signal(signal_number);
    EXPECT_TRUE(IsRefusal(process.Wait(), 130, "interrupted"));
    EXPECT_EQ(GroupOf(pid), "");
  }
}

TEST_F(BenchGroupTest, ARunDoesNotOutliveABenchThatIsKilled) {
  std::string folder;
  {
    Subprocess process(Bench(200'000));
    const pid_t pid = process.pid();
    while ((folder = GroupOf(pid)).empty() ||
           ReadFile(folder + "/cgroup.procs").empty()) {
      ASSERT_FALSE(process.StatusBytes("VmRSS") == std::nullopt)
          << "ended before it made a group";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }  // SIGKILL
  // The group itself stays; removing it fails for as long as something runs.
  while (rmdir(folder.c_str()) != 0 && errno == EBUSY) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace lowmem::testing
