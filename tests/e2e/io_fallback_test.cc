// SPDX-License-Identifier: Apache-2.0
// Mode stream where a way of reading is missing: another one is taken, said in
// the statistics, and gives the same bits.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"
#include "tests/support/small_disk.h"

namespace lowmem::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

BudgetRun Streamed(const std::string& model) {
  BudgetRun run;
  run.model = model;
  run.mode = "stream";
  run.budget_bytes = 24 << 20;
  return run;
}

std::vector<int64_t> IdsOfCopy(const std::string& model) {
  BudgetRun run = Streamed(model);
  run.mode = "copy";
  run.budget_bytes.reset();
  return Generate(run).ids;
}

LaunchResult Launch(const BudgetRun& run, bool forbid_io_uring) {
  LaunchOptions launch;
  launch.command.program = Cli();
  launch.command.args = ArgsOf(run);
  launch.forbid_io_uring = forbid_io_uring;
  return RunLaunched(launch);
}

std::string Io(const JsonValue& json) {
  return At(At(json, "stats"), "io").string();
}

TEST(IoFallbackTest, WithoutIoUringThreadsReadDirectly) {
  const GrownModel model;
  const LaunchResult result = Launch(Streamed(model.path()), true);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_EQ(Integers(At(json, "ids")), IdsOfCopy(model.path()));
  EXPECT_THAT(Io(json), Not(HasSubstr("uring")));
  EXPECT_THAT(Io(json), HasSubstr("threads, direct"));
}

TEST(IoFallbackTest, StatisticsForPeopleNameTheMethod) {
  const GrownModel model;
  BudgetRun run = Streamed(model.path());
  run.more_args = {"--stats"};
  LaunchOptions launch;
  launch.command.program = Cli();
  launch.command.args = ArgsOf(run);
  // Figures are for stderr, which -q silences.
  std::erase(launch.command.args, "-q");
  std::erase(launch.command.args, "--json");
  launch.forbid_io_uring = true;
  const LaunchResult result = RunLaunched(launch);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err,
              ContainsRegex("\nio +[0-9]+ reading threads, direct"));
}

TEST(IoFallbackTest, WhereDirectReadsAreRefusedTheyAreBuffered) {
  const GrownModel model;
  const SmallDisk disk(0, "ramfs");
  if (!disk.is_mounted()) GTEST_SKIP() << "a ramfs cannot be mounted here";
  const std::string copy = disk.path() + "/model";
  fs::copy(model.path(), copy);
  const LaunchResult result = Launch(Streamed(copy), false);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_EQ(Integers(At(json, "ids")), IdsOfCopy(model.path()));
  EXPECT_THAT(Io(json), HasSubstr("buffered"));
}

// Newer kernels take O_DIRECT there and copy all the same.
TEST(IoFallbackTest, AFileInMemoryGivesTheSameIds) {
  const GrownModel model;
  const SmallDisk disk(64 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "a tmpfs cannot be mounted here";
  const std::string copy = disk.path() + "/model";
  fs::copy(model.path(), copy);
  for (const bool forbid_io_uring : {false, true}) {
    const LaunchResult result = Launch(Streamed(copy), forbid_io_uring);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(Integers(At(ParseJsonText(result.out), "ids")),
              IdsOfCopy(model.path()));
  }
}

TEST(IoFallbackTest, EveryMethodThatIsAskedForGivesTheSameIds) {
  const GrownModel model;
  for (const char* io : {"auto", "uring", "pread", "buffered"}) {
    BudgetRun run = Streamed(model.path());
    run.more_args = {"--io", io};
    const LaunchResult result = Launch(run, false);
    ASSERT_EQ(result.exit_code, 0) << io << ": " << result.err;
    EXPECT_EQ(Integers(At(ParseJsonText(result.out), "ids")),
              IdsOfCopy(model.path()))
        << io;
  }
}

}  // namespace
}  // namespace lowmem::testing
