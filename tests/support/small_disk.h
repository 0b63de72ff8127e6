// SPDX-License-Identifier: Apache-2.0
// A file system in memory, mounted where the test may (root), absent otherwise:
// a tmpfs of a few megabytes that a test can fill, or a ramfs, which has no
// bound and refuses O_DIRECT.

#ifndef LOWMEM_TESTS_SUPPORT_SMALL_DISK_H_
#define LOWMEM_TESTS_SUPPORT_SMALL_DISK_H_

#include <sys/mount.h>

#include <cstddef>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lowmem::testing {

class SmallDisk {
 public:
  explicit SmallDisk(size_t size_bytes, const char* type = "tmpfs") {
    const std::string options = "size=" + std::to_string(size_bytes);
    is_mounted_ =
        mount(type, folder_.path().c_str(), type, 0, options.c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }

  bool is_mounted() const { return is_mounted_; }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  bool is_mounted_ = false;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_SMALL_DISK_H_
