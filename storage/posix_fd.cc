// SPDX-License-Identifier: Apache-2.0
#include "storage/posix_fd.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

// strerror is not thread-safe, and the message of a full disk should say what
// to do about it.
std::string Reason(int error) {
  switch (error) {
    case ENOSPC:
      return "no space left on the disk; free some or choose another folder";
    case EDQUOT:
      return "the disk quota is used up; free some space or choose another "
             "folder";
    case EACCES:
      return "permission denied";
    case EPERM:
      return "operation not permitted";
    case EROFS:
      return "the file system is read-only";
    case EIO:
      return "input/output error of the disk";
    case EMFILE:
      return "too many open files";
    case EISDIR:
      return "is a folder";
    case EFBIG:
      return "the file would be larger than the limit (ulimit -f) or the file "
             "system allows";
    default:
      break;
  }
  char text[128];
  // GNU's strerror_r may return a constant instead of filling `text`.
  return strerror_r(error, text, sizeof(text));
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

UniqueFd::~UniqueFd() {
  // After EINTR the descriptor is closed on Linux; trying again could close
  // another thread's.
  if (fd_ >= 0) close(fd_);
}

absl::Status ErrnoStatus(int error, absl::string_view path,
                         absl::string_view what) {
  const std::string shown = PrintablePath(path);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(
          absl::StrCat(shown, ": ", what, ": no such file or folder"));
    case ENAMETOOLONG:
      return absl::NotFoundError(
          absl::StrCat(shown, ": ", what, ": the name is too long"));
    case ENOMEM:
      return absl::ResourceExhaustedError(absl::StrCat(
          shown, ": ", what, ": not enough memory or address space"));
    default:
      return absl::UnavailableError(
          absl::StrCat(shown, ": ", what, ": ", Reason(error)));
  }
}

absl::Status OutputErrnoStatus(int error, absl::string_view path,
                               absl::string_view what) {
  absl::Status status = ErrnoStatus(error, path, what);
  if (error != ENAMETOOLONG && error != ELOOP) return status;
  return absl::InvalidArgumentError(status.message());
}

absl::Status SyncFolder(const UniqueFd& folder, absl::string_view path) {
  // EINVAL: a file system that cannot sync folders has nothing to make durable.
  if (fsync(folder.get()) != 0 && errno != EINVAL) {
    return ErrnoStatus(errno, path, "cannot sync the folder");
  }
  return absl::OkStatus();
}

}  // namespace lowmem
