// SPDX-License-Identifier: Apache-2.0
// A file descriptor with an owner, and errno as a status. For the posix_*
// sources only.

#ifndef LOWMEM_STORAGE_POSIX_FD_H_
#define LOWMEM_STORAGE_POSIX_FD_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lowmem {

// Ownership: closes the descriptor when destroyed. Movable.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd();

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// `path: what: reason`. kNotFound where nothing stands under the name;
// kResourceExhausted where memory or address space is short; kUnavailable for
// the rest, a full disk and absent rights among them.
absl::Status ErrnoStatus(int error, absl::string_view path,
                         absl::string_view what);

// The same for a name that is to be written: one that nothing can ever stand
// under, being too long or a link in a circle, is kInvalidArgument.
absl::Status OutputErrnoStatus(int error, absl::string_view path,
                               absl::string_view what);

// Makes the entries of an open folder durable. Errors: kUnavailable.
absl::Status SyncFolder(const UniqueFd& folder, absl::string_view path);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_POSIX_FD_H_
