// SPDX-License-Identifier: Apache-2.0
// A control group (blkio, version 1) in which the disk of a file reads so many
// bytes a second and no more.

#ifndef LOWMEM_TESTS_SUPPORT_THROTTLED_DISK_H_
#define LOWMEM_TESTS_SUPPORT_THROTTLED_DISK_H_

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace lowmem::testing {

class ThrottledDisk {
 public:
  ThrottledDisk(const std::string& file, uint64_t bytes_per_s) {
    const std::string folder =
        "/sys/fs/cgroup/blkio/lowmem-test-" + std::to_string(getpid());
    if (mkdir(folder.c_str(), 0755) != 0) return;
    folder_ = folder;
    std::ofstream limit(folder + "/blkio.throttle.read_bps_device");
    limit << DiskOf(file) << " " << bytes_per_s << std::flush;
    is_throttled_ = limit.good();
  }
  ~ThrottledDisk() {
    if (!folder_.empty()) rmdir(folder_.c_str());
  }
  ThrottledDisk(const ThrottledDisk&) = delete;
  ThrottledDisk& operator=(const ThrottledDisk&) = delete;

  // False where there is no such group: tests skip themselves.
  bool is_throttled() const { return is_throttled_; }
  std::string processes_path() const { return folder_ + "/cgroup.procs"; }

 private:
  // "major:minor" of the whole disk: the kernel throttles no partitions.
  static std::string DiskOf(const std::string& file) {
    struct stat info = {};
    if (stat(file.c_str(), &info) != 0) return "";
    const std::string device = std::to_string(major(info.st_dev)) + ":" +
                               std::to_string(minor(info.st_dev));
    namespace fs = std::filesystem;
    std::error_code ignored;
    const fs::path block = fs::canonical("/sys/dev/block/" + device, ignored);
    if (!fs::exists(block / "partition", ignored)) return device;
    std::string disk;
    std::ifstream(block.parent_path() / "dev") >> disk;
    return disk;
  }

  std::string folder_;
  bool is_throttled_ = false;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_THROTTLED_DISK_H_
