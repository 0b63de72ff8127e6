// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_processors.h"

#include <sched.h>

#include <thread>

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
