// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_processors.h"

#include <sched.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

TEST(ProcessorsFromCpuMaxTest, QuotasAreRoundedUp) {
  struct Case {
    const char* text;
    std::optional<uint32_t> processors;
  };
  const Case cases[] = {
      {"200000 100000\n", 2},
      {"150000 100000\n", 2},
      {"1000 100000\n", 1},
      {"max 100000\n", std::nullopt},
      {"", std::nullopt},
      {"100000", std::nullopt},
      {"0 100000", std::nullopt},
      {"100000 0", std::nullopt},
      {"-1 100000", std::nullopt},
      {"1 2 3", std::nullopt},
      {"18446744073709551615 1", UINT32_MAX},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(ProcessorsFromCpuMax(test.text), test.processors) << test.text;
  }
}

// A fake /sys in which processor i has the i-th list.
void WriteTopology(testing::TemporaryFolder& root, const std::string& name,
                   const std::vector<std::string>& lists) {
  for (size_t i = 0; i < lists.size(); ++i) {
    if (lists[i].empty()) continue;
    root.Write(
        absl::StrCat("sys/devices/system/cpu/cpu", i, "/topology/", name),
        absl::StrCat(lists[i], "\n"));
  }
}

TEST(CoresOfTest, HardwareThreadsOfACoreCountOnce) {
  struct Case {
    const char* name;
    std::vector<std::string> lists;
    std::vector<uint32_t> allowed;
    uint32_t cores;
  };
  const Case cases[] = {
      {"two threads a core, far apart",
       {"0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"},
       {0, 1, 2, 3, 4, 5, 6, 7},
       4},
      {"two threads a core, side by side",
       {"0-1", "0-1", "2-3", "2-3"},
       {0, 1, 2, 3},
       2},
      {"one thread of each core allowed",
       {"0-1", "0-1", "2-3", "2-3"},
       {1, 3},
       2},
      {"both threads of one core allowed",
       {"0-1", "0-1", "2-3", "2-3"},
       {2, 3},
       1},
      {"one thread a core", {"0", "1", "2"}, {0, 1, 2}, 3},
      {"cores of two kinds", {"0-1", "0-1", "2", "3"}, {0, 1, 2, 3}, 3},
      {"eight threads a core", {"0-7", "0-7"}, {0, 1}, 1},
      {"more than a core has", {"0-15", "0-15", "0-15"}, {0, 1, 2}, 3},
      {"more in several ranges", {"0-4,8-11", "0-4,8-11"}, {0, 1}, 2},
      {"one processor without a list", {"0-1", "0-1", ""}, {0, 1, 2}, 3},
      {"an empty list", {"\n", "1"}, {0, 1}, 2},
      {"no list", {"x", "1"}, {0, 1}, 2},
      {"backwards", {"1-0", "1-0"}, {0, 1}, 2},
      {"half a range", {"0-", "0-"}, {0, 1}, 2},
      {"beyond 32 bits", {"0-4294967296", "1"}, {0, 1}, 2},
      {"all of 32 bits", {"0-4294967295,0-4294967295", "1"}, {0, 1}, 2},
      {"none allowed", {"0"}, {}, 1},
  };
  for (const Case& test : cases) {
    for (const char* name : {"core_cpus_list", "thread_siblings_list"}) {
      testing::TemporaryFolder root;
      WriteTopology(root, name, test.lists);
      EXPECT_EQ(CoresOf(test.allowed, root.path()), test.cores)
          << test.name << ", " << name;
    }
  }
}

TEST(CoresOfTest, TheNewerNameIsPreferred) {
  testing::TemporaryFolder root;
  WriteTopology(root, "core_cpus_list", {"0", "1"});
  WriteTopology(root, "thread_siblings_list", {"0-1", "0-1"});
  EXPECT_EQ(CoresOf({0, 1}, root.path()), 2u);
}

TEST(CoresOfTest, WithoutTopologyEachHardwareThreadIsACore) {
  testing::TemporaryFolder root;
  EXPECT_EQ(CoresOf({0, 1, 2, 3}, root.path()), 4u);
}

TEST(AvailableCoresTest, AreCoresOfAllowedProcessors) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  std::vector<std::string> lists(CPU_SETSIZE);
  for (size_t i = 0; i < lists.size(); ++i) {
    if (CPU_ISSET(i, &mask)) lists[i] = "0-1";  // all of one core
  }
  testing::TemporaryFolder root;
  WriteTopology(root, "core_cpus_list", lists);
  EXPECT_EQ(AvailableCores(root.path()), 1u);
  EXPECT_EQ(AvailableProcessors(root.path()),
            static_cast<uint32_t>(CPU_COUNT(&mask)));
}

TEST(AvailableCoresTest, AQuotaBinds) {
  testing::TemporaryFolder root;
  root.Write("proc/self/cgroup", "0::/\n");
  root.Write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_EQ(AvailableCores(root.path()), 1u);
}

// Runs in a thread of its own, so that the narrowed mask ends with it.
TEST(AvailableProcessorsTest, AffinityIsRespected) {
  testing::TemporaryFolder no_groups;
  uint32_t processors = 0;
  std::thread([&] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof(mask), &mask), 0);
    processors = AvailableProcessors(no_groups.path());
  }).join();
  EXPECT_EQ(processors, 1u);
}

TEST(AvailableProcessorsTest, TheSmallestQuotaUpToTheRootBinds) {
  testing::TemporaryFolder root;
  root.Write("proc/self/cgroup", "0::/slice/box\n");
  root.Write("sys/fs/cgroup/slice/box/cpu.max", "6400000 100000\n");
  EXPECT_GE(AvailableProcessors(root.path()), 1u);
  root.Write("sys/fs/cgroup/slice/cpu.max", "100000 100000\n");
  EXPECT_EQ(AvailableProcessors(root.path()), 1u);
}

TEST(AvailableProcessorsTest, Version1QuotasBind) {
  testing::TemporaryFolder root;
  root.Write("proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n");
  root.Write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "50000\n");
  root.Write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(AvailableProcessors(root.path()), 1u);
}

TEST(AvailableProcessorsTest, NoGroupsAtAllIsNoLimit) {
  testing::TemporaryFolder root;
  EXPECT_GE(AvailableProcessors(root.path()), 1u);
}

}  // namespace
}  // namespace lowmem
