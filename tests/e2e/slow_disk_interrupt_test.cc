// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while the program waits for a disk that gives it next to nothing.
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"
#include "tests/e2e/grown_model.h"
#include "tests/support/launch.h"
#include "tests/support/throttled_disk.h"

namespace lowmem::testing {
namespace {

constexpr uint64_t kBytesPerSecond = 200'000;
// More than all that is read before the weights.
constexpr uint64_t kAskedBytes = 256 << 10;
// Half a second is promised; some of these took half a minute.
constexpr double kSecondsToEnd = 2;

// What the process has asked of disks so far.
uint64_t ReadBytes(pid_t pid) {
  std::ifstream io(absl::StrCat("/proc/", pid, "/io"));
  std::string name;
  uint64_t value = 0;
  while (io >> name >> value) {
    if (name == "read_bytes:") return value;
  }
  return 0;
}

class SlowDiskInterruptTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!disk_.is_throttled()) GTEST_SKIP() << "no blkio control group";
  }
  // Interrupts the command once it waits for the weights.
  void ExpectEndsSoon(const std::vector<std::string>& args) {
    ForgetPages(model_.weights_path());
    LaunchOptions launch;
    launch.command.program = Cli();
    launch.command.args = args;
    launch.groups = {disk_.processes_path()};
    Subprocess process(Launched(launch));
    while (ReadBytes(process.pid()) < kAskedBytes) {
      ASSERT_NE(process.StatusBytes("VmRSS"), std::nullopt) << "ended early";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const auto begin = std::chrono::steady_clock::now();
    process.Signal(SIGINT);
    const SubprocessResult result = process.Wait();
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(result.exit_code, 130);
    EXPECT_EQ(result.err, "lowmem-run: interrupted\n");
    EXPECT_LT(waited.count(), kSecondsToEnd);
  }
  const GrownModel model_;
  const ThrottledDisk disk_{model_.weights_path(), kBytesPerSecond};
};

// What an ended process had asked for is still owed by its group and holds the
// file's pages: each way has its own.
class SlowLoadingTest
    : public SlowDiskInterruptTest,
      public ::testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(SlowLoadingTest, EndsSoon) {
  std::vector<std::string> args = GetParam();
  args.insert(args.begin(), {"-m", model_.path()});
  args.insert(args.end(), {"generate", "--prompt-ids", "267"});
  ExpectEndsSoon(args);
}

using Args = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Ways, SlowLoadingTest,
    ::testing::Values(
        Args{"--mode", "copy"}, Args{"--mode", "mmap"},
        Args{"--mode", "mmap", "--ram-budget", "24M"},
        Args{"--mode", "stream", "--ram-budget", "24M", "--io", "buffered"},
        Args{"--mode", "stream", "--ram-budget", "24M", "--io", "pread"}));

TEST_F(SlowDiskInterruptTest, ConvertingEndsSoonAndLeavesNothing) {
  const TemporaryFolder folder;
  ExpectEndsSoon({"convert", model_.path(), folder / "out"});
  EXPECT_THAT(ListFolder(folder.path()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace lowmem::testing
