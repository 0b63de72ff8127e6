// SPDX-License-Identifier: Apache-2.0
#include "storage/base/memory_meter.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "storage/base/aligned_buffer.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;

// A folder that looks like the root of a file system with /proc and /sys.
class FakeRoot {
 public:
  FakeRoot() {
    std::string pattern = ::testing::TempDir() + "/memory_meter_XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~FakeRoot() { fs::remove_all(path_); }

  FakeRoot& Add(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path_ + path).parent_path());
    std::ofstream(path_ + path) << text;
    return *this;
  }
  ProcessMemory Read() const { return ReadProcessMemory(path_); }

 private:
  std::string path_;
};

constexpr char kMountsV2[] =
    "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
constexpr char kMountsV1[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

TEST(MemoryMeterTest, ThisProcessHasFigures) {
  const ProcessMemory memory = ReadProcessMemory();
  ASSERT_TRUE(memory.rss_anon_bytes.has_value());
  ASSERT_TRUE(memory.rss_file_bytes.has_value());
  ASSERT_TRUE(memory.vm_hwm_bytes.has_value());
  ASSERT_TRUE(memory.major_faults.has_value());
  EXPECT_GE(*memory.vm_hwm_bytes, *memory.rss_anon_bytes);
  EXPECT_GT(*memory.rss_file_bytes, 0u);
}

TEST(MemoryMeterTest, TouchedPagesAreSeen) {
  constexpr uint64_t kTouchedBytes = 32 << 20;
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  const uint64_t before = *ReadProcessMemory().rss_anon_bytes;
  ASSERT_OK_AND_ASSIGN(AlignedBuffer buffer,
                       AlignedBuffer::Allocate(kTouchedBytes, account));
  for (size_t i = 0; i < kTouchedBytes; i += 4096) buffer.data()[i] = 1;
  const uint64_t after = *ReadProcessMemory().rss_anon_bytes;
  EXPECT_GE(after, before + kTouchedBytes * 9 / 10);
}

TEST(MemoryMeterTest, AbsentFilesGiveNoFigures) {
  const ProcessMemory memory = FakeRoot().Read();
  EXPECT_EQ(memory.vm_hwm_bytes, std::nullopt);
  EXPECT_EQ(memory.rss_anon_bytes, std::nullopt);
  EXPECT_EQ(memory.rss_file_bytes, std::nullopt);
  EXPECT_EQ(memory.major_faults, std::nullopt);
  EXPECT_EQ(memory.storage_read_bytes, std::nullopt);
  EXPECT_EQ(memory.cgroup_peak_bytes, std::nullopt);
  EXPECT_EQ(memory.cgroup_available_bytes, std::nullopt);
  EXPECT_EQ(memory.available_bytes, std::nullopt);
}

TEST(MemoryMeterTest, ProcFieldsAreInBytes) {
  FakeRoot root;
  root.Add("/proc/self/status",
           "Name:\tVmHWM: 7 kB\nVmHWM:\t    1728 kB\nRssAnon:\t 116 kB\n"
           "RssFile:\t 1612 kB\n");
  root.Add("/proc/self/stat",
           "42 (a) b) c) R 1 2 3 4 5 6 70 80 91 100 11 12 13 14\n");
  root.Add("/proc/self/io", "rchar: 9\nread_bytes: 12345\nwrite_bytes: 6\n");
  root.Add("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   2048 kB\n");
  const ProcessMemory memory = root.Read();
  EXPECT_EQ(memory.vm_hwm_bytes, 1728u * 1024);
  EXPECT_EQ(memory.rss_anon_bytes, 116u * 1024);
  EXPECT_EQ(memory.rss_file_bytes, 1612u * 1024);
  EXPECT_EQ(memory.major_faults, 91u);
  EXPECT_EQ(memory.storage_read_bytes, 12345u);
  EXPECT_EQ(memory.available_bytes, 2048u * 1024);
}

TEST(MemoryMeterTest, SmallestLimitOfNestedV2Groups) {
  FakeRoot root;
  root.Add("/proc/self/mountinfo", kMountsV2)
      .Add("/proc/self/cgroup", "0::/user.slice/app.scope/inner\n")
      .Add("/sys/fs/cgroup/user.slice/memory.max", "536870912\n")
      .Add("/sys/fs/cgroup/user.slice/app.scope/memory.max", "1073741824\n")
      .Add("/sys/fs/cgroup/user.slice/app.scope/inner/memory.max", "max\n")
      .Add("/sys/fs/cgroup/user.slice/app.scope/inner/memory.peak", "4096\n")
      .Add("/sys/fs/cgroup/user.slice/memory.peak", "8192\n");
  EXPECT_EQ(root.Read().cgroup_available_bytes, 536870912u);
  EXPECT_EQ(root.Read().cgroup_peak_bytes, 4096u);
}

TEST(MemoryMeterTest, SmallestLimitOfNestedV1Groups) {
  FakeRoot root;
  root.Add("/proc/self/mountinfo", kMountsV1)
      .Add("/proc/self/cgroup", "5:cpu:/x\n4:cpuset,memory:/a/b\n0::/\n")
      .Add("/sys/fs/cgroup/memory/memory.limit_in_bytes",
           "9223372036854771712\n")
      .Add("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "300\n")
      .Add("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "400\n")
      .Add("/sys/fs/cgroup/memory/a/b/memory.max_usage_in_bytes", "77\n");
  EXPECT_EQ(root.Read().cgroup_available_bytes, 300u);
  EXPECT_EQ(root.Read().cgroup_peak_bytes, 77u);
}

TEST(MemoryMeterTest, WhatAGroupUsesIsNotAvailableButItsPageCacheIs) {
  FakeRoot v1;
  v1.Add("/proc/self/mountinfo", kMountsV1)
      .Add("/proc/self/cgroup", "4:memory:/a/b\n")
      .Add("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n")
      .Add("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "700\n")
      .Add("/sys/fs/cgroup/memory/a/memory.stat",
           "inactive_file 1\nactive_file 2\ntotal_inactive_file 100\n"
           "total_active_file 50\n")
      .Add("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "500\n")
      .Add("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "10\n");
  EXPECT_EQ(v1.Read().cgroup_available_bytes, 450u);
  FakeRoot v2;
  v2.Add("/proc/self/mountinfo", kMountsV2)
      .Add("/proc/self/cgroup", "0::/a\n")
      .Add("/sys/fs/cgroup/a/memory.max", "1000\n")
      .Add("/sys/fs/cgroup/a/memory.current", "1200\n")
      .Add("/sys/fs/cgroup/a/memory.stat",
           "anon 900\ninactive_file 100\nactive_file 200\n");
  EXPECT_EQ(v2.Read().cgroup_available_bytes, 100u);
  v2.Add("/sys/fs/cgroup/a/memory.stat", "inactive_file 100\n");
  EXPECT_EQ(v2.Read().cgroup_available_bytes, 0u);
}

TEST(MemoryMeterTest, NoLimitIsAbsent) {
  FakeRoot v1;
  v1.Add("/proc/self/mountinfo", kMountsV1)
      .Add("/proc/self/cgroup", "4:memory:/\n")
      .Add("/sys/fs/cgroup/memory/memory.limit_in_bytes",
           "9223372036854771712\n");
  EXPECT_EQ(v1.Read().cgroup_available_bytes, std::nullopt);
  FakeRoot v2;
  v2.Add("/proc/self/mountinfo", kMountsV2)
      .Add("/proc/self/cgroup", "0::/\n")
      .Add("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(v2.Read().cgroup_available_bytes, std::nullopt);
}

// Docker without a cgroup namespace: the path is the host's, the mount shows
// only the container's own group.
TEST(MemoryMeterTest, MountedGroupOfAContainer) {
  FakeRoot root;
  root.Add("/proc/self/mountinfo",
           "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup "
           "rw,memory\n")
      .Add("/proc/self/cgroup", "4:memory:/docker/abc/sub\n")
      .Add("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n")
      .Add("/sys/fs/cgroup/memory/sub/memory.max_usage_in_bytes", "44\n");
  EXPECT_EQ(root.Read().cgroup_available_bytes, 500u);
  EXPECT_EQ(root.Read().cgroup_peak_bytes, 44u);
}

TEST(MemoryMeterTest, GroupOutsideOfTheMountFallsBackToTheMount) {
  FakeRoot root;
  root.Add("/proc/self/mountinfo", kMountsV2)
      .Add("/proc/self/cgroup", "0::/../../other\n")
      .Add("/sys/fs/cgroup/memory.max", "600\n")
      .Add("/sys/fs/other/memory.max", "1\n");
  EXPECT_EQ(root.Read().cgroup_available_bytes, 600u);
}

TEST(MemoryMeterTest, StrangeTextGivesNoFigures) {
  FakeRoot root;
  root.Add("/proc/self/status", "VmHWM:\tlots kB\nRssAnon:\n")
      .Add("/proc/self/stat", "42 no name")
      .Add("/proc/self/io", "read_bytes: -1\n")
      .Add("/proc/self/mountinfo", "1 2\n\n - cgroup2\n")
      .Add("/proc/self/cgroup", "0:\nx\n");
  const ProcessMemory memory = root.Read();
  EXPECT_EQ(memory.vm_hwm_bytes, std::nullopt);
  EXPECT_EQ(memory.rss_anon_bytes, std::nullopt);
  EXPECT_EQ(memory.major_faults, std::nullopt);
  EXPECT_EQ(memory.storage_read_bytes, std::nullopt);
  EXPECT_EQ(memory.cgroup_available_bytes, std::nullopt);
}

}  // namespace
}  // namespace lowmem
