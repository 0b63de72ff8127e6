// SPDX-License-Identifier: Apache-2.0
#include "storage/base/control_group.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

constexpr char kMountV1[] =
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
constexpr char kMountV2[] =
    "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

// "mount-point|path", or "" for none.
std::string Find(const std::string& mountinfo, const std::string& cgroup,
                 bool is_v2) {
  const std::optional<ControlGroup> group =
      FindMemoryGroup(mountinfo, cgroup, is_v2);
  if (!group.has_value()) return "";
  EXPECT_EQ(group->is_v2, is_v2);
  return group->mount_point + "|" + group->path;
}

TEST(ControlGroupTest, PathBelowTheMount) {
  EXPECT_EQ(Find(kMountV1, "5:cpu:/x\n4:cpuset,memory:/a/b\n", false),
            "/sys/fs/cgroup/memory|/a/b");
  EXPECT_EQ(Find(kMountV2, "0::/a/b\n", true), "/sys/fs/cgroup|/a/b");
}

TEST(ControlGroupTest, TheMountedGroupItselfHasNoPath) {
  EXPECT_EQ(Find(kMountV1, "4:memory:/\n", false), "/sys/fs/cgroup/memory|");
  EXPECT_EQ(Find(kMountV2, "0::/../../other\n", true), "/sys/fs/cgroup|")
      << "outside of what is mounted";
}

TEST(ControlGroupTest, MountOfAContainerShowsItsOwnGroupOnly) {
  const std::string mount =
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup "
      "rw,memory\n";
  EXPECT_EQ(Find(mount, "4:memory:/docker/abc/sub\n", false),
            "/sys/fs/cgroup/memory|/sub");
  EXPECT_EQ(Find(mount, "4:memory:/elsewhere\n", false),
            "/sys/fs/cgroup/memory|");
}

TEST(ControlGroupTest, VersionsAreKeptApart) {
  EXPECT_EQ(Find(kMountV1, "4:memory:/a\n", true), "");
  EXPECT_EQ(Find(kMountV2, "4:memory:/a\n", false), "");
  EXPECT_EQ(Find(kMountV1, "0::/a\n", false), "");
}

TEST(ControlGroupTest, StrangeTextIsNoGroup) {
  EXPECT_EQ(Find("", "", false), "");
  EXPECT_EQ(Find("1 2\n\n - cgroup2\n", "0::/\n", true), "");
  EXPECT_EQ(Find(kMountV2, "0:\nx\n", true), "");
}

}  // namespace
}  // namespace lowmem
