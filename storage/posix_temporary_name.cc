// SPDX-License-Identifier: Apache-2.0
#include "storage/posix_temporary_name.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace lowmem {
namespace {

// Uniqueness is the file system's (O_EXCL, mkdir); this only makes clashes
// rare.
uint32_t NextSuffix() {
  static std::atomic<uint32_t> counter{0};
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint32_t seed = static_cast<uint32_t>(now.tv_nsec) ^
                        (static_cast<uint32_t>(getpid()) << 12);
  return seed + counter.fetch_add(0x9e3779b9u);
}

}  // namespace

int CreateUnderTemporaryName(absl::string_view name,
                             std::string* temporary_name,
                             absl::FunctionRef<bool(const char*)> create) {
  constexpr int kMaxTries = 100;
  // A name may have 255 bytes; what is added takes 14.
  constexpr size_t kKeptBytes = 240;
  int error = EEXIST;
  for (int i = 0; i < kMaxTries && (error == EEXIST || error == EINTR); ++i) {
    *temporary_name =
        absl::StrCat(".", name.substr(0, kKeptBytes), ".",
                     absl::Hex(NextSuffix(), absl::kZeroPad8), ".tmp");
    if (create(temporary_name->c_str())) return 0;
    error = errno;
  }
  return error;
}

}  // namespace lowmem
