// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/output_file.h"
#include "storage/posix_fd.h"

namespace lowmem {
namespace {

constexpr int kMaxLinks = 40;  // as many as Linux itself follows

absl::Status CheckName(const std::string& target, const std::string& path) {
  const std::string name = target.substr(target.rfind('/') + 1);
  if (!name.empty() && name != "." && name != ".." &&
      target.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(PrintablePath(path), ": not the name of a file to write"));
}

absl::Status NotRegular(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(
      PrintablePath(path),
      ": not replaced, because it is no regular file; choose another name"));
}

// Where the link at `path` leads to, one step. errno is set when "".
std::string ReadLink(const std::string& path) {
  char text[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), text, sizeof(text));
  if (length <= 0) return "";
  const std::string target(text, static_cast<size_t>(length));
  return target[0] == '/' ? target : JoinPath(FolderOfPath(path), target);
}

}  // namespace

absl::StatusOr<std::string> ResolveOutputFile(const std::string& path) {
  LOWMEM_RETURN_IF_ERROR(CheckName(path, path));
  struct stat reached;  // where the kernel arrives
  const bool exists = stat(path.c_str(), &reached) == 0;
  if (!exists && errno != ENOENT) {
    return OutputErrnoStatus(errno, path, "cannot be written");
  }
  if (exists && !S_ISREG(reached.st_mode)) return NotRegular(path);
  std::string target = path;
  for (int i = 0; i <= kMaxLinks; ++i) {
    struct stat info;
    if (lstat(target.c_str(), &info) != 0) {
      if (errno != ENOENT) {
        return OutputErrnoStatus(errno, path, "cannot be written");
      }
      if (exists) return NotRegular(path);
      if (!IsFolder(FolderOfPath(target))) {
        return absl::NotFoundError(absl::StrCat(
            PrintablePath(path), ": cannot be written: no such folder: ",
            PrintablePath(FolderOfPath(target))));
      }
      return target;
    }
    if (!S_ISLNK(info.st_mode)) {
      // Links of /proc lead to files that their text does not name.
      const bool same = exists && info.st_dev == reached.st_dev &&
                        info.st_ino == reached.st_ino;
      if (!same) return NotRegular(path);
      return target;
    }
    target = ReadLink(target);
    if (target.empty()) return ErrnoStatus(errno, path, "cannot follow");
    LOWMEM_RETURN_IF_ERROR(CheckName(target, path));
  }
  return OutputErrnoStatus(ELOOP, path, "cannot follow");
}

}  // namespace lowmem
