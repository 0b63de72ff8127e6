// SPDX-License-Identifier: Apache-2.0
// The file goes wrong, or the disk gets slow, in the middle of a generation: an
// I/O error in one line, what was printed stays, never a signal.
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"
#include "tests/support/throttled_disk.h"

namespace lowmem::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::StartsWith;

class FileFaultTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Half of the model stays in memory; the rest is read for each of so many
  // tokens that the fault comes long before the last.
  BudgetRun Long() const {
    BudgetRun run;
    run.model = model_.path();
    run.mode = GetParam();
    run.budget_bytes = 24 << 20;
    run.num_new_tokens = 1000;
    return run;
  }
  static SubprocessOptions Plain(const BudgetRun& run) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = ArgsOf(run);
    // Text as it comes.
    std::erase(options.args, "--json");
    return options;
  }
  // Lets a generation begin, does `fault`, and looks at the end of it.
  template <typename Fault>
  void ExpectIoError(Fault fault) {
    BudgetRun first = Long();
    first.mode = "copy";
    first.budget_bytes.reset();
    first.num_new_tokens = 40;
    const std::string text = RunSubprocess(Plain(first)).out;
    ASSERT_GT(text.size(), 20u);
    Subprocess process(Plain(Long()));
    ASSERT_TRUE(process.WaitForStdout(5));
    // Stopped anywhere in a token, and surely before the end.
    process.Signal(SIGSTOP);
    fault();
    process.Signal(SIGCONT);
    const SubprocessResult result = process.Wait();
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.exit_code, 7);
    EXPECT_THAT(result.err,
                StartsWith(absl::StrCat("lowmem-run: ", model_.path())));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1)
        << result.err;
    const size_t num_same = std::min(result.out.size(), text.size()) - 1;
    EXPECT_GE(num_same, 4u);
    EXPECT_EQ(result.out.substr(0, num_same), text.substr(0, num_same));
  }
  const GrownModel model_;
};

TEST_P(FileFaultTest, ATruncatedFileEndsIt) {
  ExpectIoError([&] { fs::resize_file(model_.weights_path(), 4096); });
}

TEST_P(FileFaultTest, AFileCutByOneByteEndsIt) {
  ExpectIoError([&] {
    fs::resize_file(model_.weights_path(),
                    fs::file_size(model_.weights_path()) - 1);
  });
}

TEST_P(FileFaultTest, AReplacedFileEndsIt) {
  ExpectIoError([&] {
    const std::string other = model_.path() + "/other";
    WriteFile(other, "something else");
    fs::rename(other, model_.weights_path());
  });
}

TEST_P(FileFaultTest, AFileWrittenOverEndsIt) {
  ExpectIoError([&] {
    std::fstream file(model_.weights_path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1 << 20);
    file << std::string(1 << 20, '\1');
  });
}

TEST_P(FileFaultTest, AFileThatMayNoLongerBeReadEndsIt) {
  ExpectIoError([&] { chmod(model_.weights_path().c_str(), 0); });
}

// A hundredth of what disks do.
constexpr uint64_t kSlowBytesPerSecond = 10'000'000;

TEST_P(FileFaultTest, ASlowDiskGivesTheSameIds) {
  const ThrottledDisk disk(model_.weights_path(), kSlowBytesPerSecond);
  if (!disk.is_throttled()) GTEST_SKIP() << "no blkio control group";
  BudgetRun run = Long();
  run.num_new_tokens = 2;
  const std::vector<int64_t> expected = Generate(run).ids;
  ForgetPages(model_.weights_path());
  LaunchOptions launch;
  launch.command.program = Cli();
  launch.command.args = ArgsOf(run);
  launch.groups = {disk.processes_path()};
  const LaunchResult result = RunLaunched(launch);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Integers(At(ParseJsonText(result.out), "ids")), expected);
  EXPECT_GT(result.storage_read_bytes, model_.weight_bytes() / 2)
      << "the slow disk was not asked";
}

TEST_P(FileFaultTest, AnInterruptDoesNotWaitForASlowDisk) {
  const ThrottledDisk disk(model_.weights_path(), kSlowBytesPerSecond);
  if (!disk.is_throttled()) GTEST_SKIP() << "no blkio control group";
  ForgetPages(model_.weights_path());
  LaunchOptions launch;
  launch.command = Plain(Long());
  launch.groups = {disk.processes_path()};
  Subprocess process(Launched(launch));
  ASSERT_TRUE(process.WaitForStdout(1));
  const auto begin = std::chrono::steady_clock::now();
  process.Signal(SIGINT);
  const SubprocessResult result = process.Wait();
  const std::chrono::duration<double> waited =
      std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.err, "lowmem-run: interrupted\n");
  // Half a second is promised; the whole generation would take half an hour.
  EXPECT_LT(waited.count(), 5);
}

INSTANTIATE_TEST_SUITE_P(Modes, FileFaultTest,
                         ::testing::Values("mmap", "stream"),
                         [](const auto& mode) { return mode.param; });

}  // namespace
}  // namespace lowmem::testing
