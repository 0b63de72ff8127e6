// SPDX-License-Identifier: Apache-2.0
// Memory groups on folders that look like the kernel's, and one real one.
#include "engine/cli/memory_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem::cli {
namespace {

namespace fs = std::filesystem;
using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::lowmem::testing::ListFolder;
using ::lowmem::testing::ReadFileBytes;
using ::lowmem::testing::TemporaryFolder;
using ::testing::IsEmpty;

constexpr char kMountsV1[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
constexpr char kMountsV2[] =
    "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
constexpr char kFolderV1[] = "/sys/fs/cgroup/memory";
constexpr char kFolderV2[] = "/sys/fs/cgroup";

// Folders that fill themselves with the files a kernel would put there.
class FakeKernel {
 public:
  FakeKernel(const char* mounts, const char* cgroup) {
    root_.Write("proc/self/mountinfo", mounts);
    root_.Write("proc/self/cgroup", cgroup);
  }
  // A group that stands already, and which files a new one below it gets.
  FakeKernel& Add(const std::string& folder, std::vector<std::string> files) {
    fs::create_directories(root_.path() + folder);
    files_of_new_[root_.path() + folder] = std::move(files);
    return *this;
  }
  ControlGroupSystem System() {
    return {root_.path(),
            [this](const std::string& path) {
              const std::string parent = fs::path(path).parent_path();
              if (files_of_new_.count(parent) == 0) {
                errno = EACCES;
                return false;
              }
              EXPECT_TRUE(fs::create_directory(path)) << path;
              for (const std::string& file : files_of_new_[parent]) {
                std::ofstream(path + "/" + file).flush();
              }
              group_ = path;
              return true;
            },
            [](const std::string& path) { return fs::remove_all(path) > 0; }};
  }
  const std::string& group() const { return group_; }
  std::string Text(const std::string& file) const {
    return ReadFileBytes(group_ + "/" + file);
  }
  void Set(const std::string& file, const std::string& text) const {
    std::ofstream(group_ + "/" + file) << text;
  }
  std::vector<std::string> Names(const std::string& folder) const {
    return ListFolder(root_.path() + folder);
  }
  std::string Path(const std::string& path) const {
    return root_.path() + path;
  }

 private:
  const TemporaryFolder root_;
  std::map<std::string, std::vector<std::string>> files_of_new_;
  std::string group_;
};

const std::vector<std::string> kFilesV1 = {
    "cgroup.procs", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"};
const std::vector<std::string> kFilesV2 = {"cgroup.procs", "memory.max",
                                           "memory.swap.max"};

TEST(MemoryGroupTest, V1GroupLimitsMemoryWithSwapAndGoesAway) {
  FakeKernel kernel(kMountsV1, "4:memory:/\n0::/\n");
  kernel.Add(kFolderV1, kFilesV1);
  {
    ASSERT_OK_AND_ASSIGN(const auto group,
                         MemoryGroup::Create(1 << 20, kernel.System()));
    EXPECT_EQ(kernel.Text("memory.limit_in_bytes"), "1048576");
    EXPECT_EQ(kernel.Text("memory.memsw.limit_in_bytes"), "1048576");
    EXPECT_EQ(group->processes_path(), kernel.group() + "/cgroup.procs");
    EXPECT_TRUE(group->Join());
    EXPECT_EQ(kernel.Text("cgroup.procs"), "0");
  }
  EXPECT_THAT(kernel.Names(kFolderV1), IsEmpty());
}

TEST(MemoryGroupTest, V2GroupLimitsMemoryAndDeniesSwap) {
  FakeKernel kernel(kMountsV2, "0::/\n");
  kernel.Add(kFolderV2, kFilesV2);
  ASSERT_OK_AND_ASSIGN(const auto group,
                       MemoryGroup::Create(4096, kernel.System()));
  EXPECT_EQ(kernel.Text("memory.max"), "4096");
  EXPECT_EQ(kernel.Text("memory.swap.max"), "0");
}

TEST(MemoryGroupTest, AKernelWithoutSwapAccountingIsEnough) {
  FakeKernel kernel(kMountsV1, "4:memory:/\n");
  kernel.Add(kFolderV1, {"cgroup.procs", "memory.limit_in_bytes"});
  EXPECT_THAT(MemoryGroup::Create(4096, kernel.System()), IsOk());
}

TEST(MemoryGroupTest, UsageOfV1) {
  FakeKernel kernel(kMountsV1, "4:memory:/\n");
  kernel.Add(kFolderV1, kFilesV1);
  ASSERT_OK_AND_ASSIGN(const auto group,
                       MemoryGroup::Create(4096, kernel.System()));
  EXPECT_EQ(group->Usage().peak_bytes, std::nullopt);
  EXPECT_EQ(group->Usage().num_oom_kills, std::nullopt);
  kernel.Set("memory.max_usage_in_bytes", "77\n");
  kernel.Set("memory.failcnt", "5\n");
  kernel.Set("memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  EXPECT_EQ(group->Usage().peak_bytes, 77u);
  EXPECT_EQ(group->Usage().num_limit_hits, 5u);
  EXPECT_EQ(group->Usage().num_oom_kills, 2u);
  // With a limit of both, the kernel counts there what fails first.
  kernel.Set("memory.memsw.failcnt", "30\n");
  EXPECT_EQ(group->Usage().num_limit_hits, 35u);
}

TEST(MemoryGroupTest, UsageOfV2) {
  FakeKernel kernel(kMountsV2, "0::/\n");
  kernel.Add(kFolderV2, kFilesV2);
  ASSERT_OK_AND_ASSIGN(const auto group,
                       MemoryGroup::Create(4096, kernel.System()));
  kernel.Set("memory.peak", "88\n");
  kernel.Set("memory.events",
             "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n");
  EXPECT_EQ(group->Usage().peak_bytes, 88u);
  EXPECT_EQ(group->Usage().num_limit_hits, 9u);
  EXPECT_EQ(group->Usage().num_oom_kills, 3u);
}

// Version 2 hands no controller on to groups below one that holds processes.
TEST(MemoryGroupTest, GroupWithoutTheControllerIsLeftForTheOneAbove) {
  FakeKernel kernel(kMountsV2, "0::/app/inner\n");
  kernel.Add(kFolderV2, kFilesV2)
      .Add(absl::StrCat(kFolderV2, "/app"), kFilesV2)
      .Add(absl::StrCat(kFolderV2, "/app/inner"), {"cgroup.procs"});
  ASSERT_OK_AND_ASSIGN(const auto group,
                       MemoryGroup::Create(4096, kernel.System()));
  EXPECT_EQ(fs::path(kernel.group()).parent_path(),
            kernel.Path(absl::StrCat(kFolderV2, "/app")));
  EXPECT_THAT(kernel.Names(absl::StrCat(kFolderV2, "/app/inner")), IsEmpty());
}

TEST(MemoryGroupTest, AControllerThatCanBeHandedOnIs) {
  FakeKernel kernel(kMountsV2, "0::/\n");
  kernel.Add(kFolderV2, {"cgroup.procs"});
  const std::string control =
      kernel.Path(absl::StrCat(kFolderV2, "/cgroup.subtree_control"));
  std::ofstream(control).flush();
  // The fake's files do not appear by it, but that it was asked is seen.
  EXPECT_FALSE(MemoryGroup::Create(4096, kernel.System()).ok());
  EXPECT_EQ(ReadFileBytes(control), "+memory");
}

TEST(MemoryGroupTest, WhyThereIsNoneIsSaid) {
  FakeKernel nothing("", "");
  EXPECT_THAT(MemoryGroup::Create(4096, nothing.System()),
              Fails(absl::StatusCode::kUnimplemented, "the kernel shows none"));
  FakeKernel forbidden(kMountsV1, "4:memory:/a\n");
  EXPECT_THAT(MemoryGroup::Create(4096, forbidden.System()),
              Fails(absl::StatusCode::kUnimplemented,
                    "/sys/fs/cgroup/memory/a: Permission denied"));
}

TEST(MemoryGroupTest, ARealGroupChargesAndKillsWhatRunsInIt) {
  absl::StatusOr<std::unique_ptr<MemoryGroup>> made =
      MemoryGroup::Create(8 << 20);
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  const std::unique_ptr<MemoryGroup> group = *std::move(made);
  const pid_t pid = fork();
  if (pid == 0) {
    if (!group->Join()) _exit(1);
    constexpr size_t kTooMuch = 64 << 20;
    char* const bytes = static_cast<char*>(malloc(kTooMuch));
    for (size_t i = 0; i < kTooMuch; i += 4096) {
      static_cast<volatile char*>(bytes)[i] = 1;
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  const MemoryGroupUsage usage = group->Usage();
  EXPECT_EQ(usage.num_oom_kills, 1u);
  // Newer kernels no longer count in version 1.
  EXPECT_TRUE(usage.num_limit_hits.has_value());
  EXPECT_LE(usage.peak_bytes.value_or(0), 8u << 20);
}

TEST(MemoryGroupTest, ARealGroupEndsWithWhatStillRuns) {
  absl::StatusOr<std::unique_ptr<MemoryGroup>> made =
      MemoryGroup::Create(8 << 20);
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  std::unique_ptr<MemoryGroup> group = *std::move(made);
  const std::string folder = fs::path(group->processes_path()).parent_path();
  const pid_t pid = fork();
  if (pid == 0) {
    if (!group->Join()) _exit(1);
    for (;;) pause();
  }
  while (ReadFileBytes(group->processes_path()).empty()) usleep(1000);
  // A child that was not waited for is no longer in its group.
  group.reset();
  EXPECT_FALSE(fs::exists(folder));
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

}  // namespace
}  // namespace lowmem::cli
