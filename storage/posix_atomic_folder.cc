// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/atomic_folder.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/posix_fd.h"
#include "storage/posix_temporary_name.h"
#include "storage/unfinished_outputs.h"

namespace lowmem {
namespace {

void RemoveTree(const std::string& path) {
  std::error_code ignored;  // nobody is left to tell
  std::filesystem::remove_all(path, ignored);
}

class PosixAtomicFolder final : public AtomicFolder {
 public:
  PosixAtomicFolder(UniqueFd parent, UniqueFd folder, std::string parent_path,
                    std::string temporary_name, std::string name)
      : parent_(std::move(parent)),
        folder_(std::move(folder)),
        temporary_name_(std::move(temporary_name)),
        name_(std::move(name)),
        temporary_path_(JoinPath(parent_path, temporary_name_)),
        path_(JoinPath(parent_path, name_)) {}

  // After a commit that replaced, the old folder has the temporary name.
  ~PosixAtomicFolder() override {
    // Removing opens folders, which must work where descriptors ran out.
    folder_ = UniqueFd();
    parent_ = UniqueFd();
    OutputStep step;
    RemoveTree(temporary_path_);
    step.Ended(temporary_path_);
  }

  const std::string& temporary_path() const override { return temporary_path_; }

  absl::Status Commit(bool replace) override {
    LOWMEM_RETURN_IF_ERROR(SyncFolder(folder_, path_));
    LOWMEM_RETURN_IF_ERROR(TakeName(replace));
    return SyncFolder(parent_, path_);
  }

 private:
  absl::Status Fail(absl::string_view what) const {
    return ErrnoStatus(errno, path_, what);
  }

  absl::Status Exists() const {
    return absl::InvalidArgumentError(
        absl::StrCat(PrintablePath(path_), ": exists already"));
  }

  absl::Status TakeName(bool replace) const {
    const OutputStep step;
    return replace ? Replace() : RenameToFreeName();
  }

  int Rename(const std::string& from, const std::string& to,
             unsigned flags) const {
    // Kernels and C libraries without renameat2 still have renameat.
    if (flags == 0) {
      return renameat(parent_.get(), from.c_str(), parent_.get(), to.c_str());
    }
    return renameat2(parent_.get(), from.c_str(), parent_.get(), to.c_str(),
                     flags);
  }

  absl::Status RenameToFreeName() const {
    if (Rename(temporary_name_, name_, RENAME_NOREPLACE) == 0) {
      return absl::OkStatus();
    }
    if (errno == EEXIST) return Exists();
    if (errno != EINVAL && errno != ENOSYS) return Fail("cannot rename");
    // A file system without the flag: between the two calls another process
    // could make an empty folder of this name, which is then replaced; nothing
    // is lost.
    if (faccessat(parent_.get(), name_.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) ==
        0) {
      return Exists();
    }
    return Rename(temporary_name_, name_, 0) == 0 ? absl::OkStatus()
                                                  : Fail("cannot rename");
  }

  absl::Status Replace() const {
    // The destructor then removes the old folder under the temporary name.
    if (Rename(temporary_name_, name_, RENAME_EXCHANGE) == 0) {
      return absl::OkStatus();
    }
    if (errno == ENOENT) return RenameToFreeName();
    if (errno != EINVAL && errno != ENOSYS) return Fail("cannot rename");
    // A file system that cannot swap: the old one steps aside first, and comes
    // back when the new one does not get its name.
    const std::string aside = absl::StrCat(temporary_name_, ".old");
    if (Rename(name_, aside, 0) != 0) return Fail("cannot rename the old one");
    if (Rename(temporary_name_, name_, 0) != 0) {
      const absl::Status failure = Fail("cannot rename");
      Rename(aside, name_, 0);
      return failure;
    }
    RemoveTree(temporary_path_ + ".old");
    return absl::OkStatus();
  }

  UniqueFd parent_;
  UniqueFd folder_;  // the new one
  const std::string temporary_name_;
  const std::string name_;
  const std::string temporary_path_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AtomicFolder>> AtomicFolder::Create(
    const std::string& path) {
  // "out/" names the same folder as "out".
  const std::string trimmed = path.substr(0, path.find_last_not_of('/') + 1);
  const std::string name = trimmed.substr(trimmed.rfind('/') + 1);
  if (name.empty() || name == "." || name == ".." ||
      path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        PrintablePath(path), ": not the name of a folder to make"));
  }
  const std::string parent_path = FolderOfPath(trimmed);
  UniqueFd parent(
      open(parent_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.is_open()) {
    return OutputErrnoStatus(errno, path, "cannot open the folder around it");
  }
  // The temporary's name is cut to fit, this one is not.
  struct stat info;
  if (fstatat(parent.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 &&
      errno != ENOENT) {
    return OutputErrnoStatus(errno, path, "cannot be made");
  }
  std::string temporary_name;
  OutputStep step;
  const int error = CreateUnderTemporaryName(
      name, &temporary_name, [&](const char* candidate) {
        return mkdirat(parent.get(), candidate, 0777) == 0;
      });
  if (error != 0) return ErrnoStatus(error, path, "cannot create");
  UniqueFd folder(openat(parent.get(), temporary_name.c_str(),
                         O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) {
    const absl::Status failure =
        ErrnoStatus(errno, path, "cannot open the new folder");
    unlinkat(parent.get(), temporary_name.c_str(), AT_REMOVEDIR);
    return failure;
  }
  step.Began(JoinPath(parent_path, temporary_name));
  return std::make_unique<PosixAtomicFolder>(std::move(parent),
                                             std::move(folder), parent_path,
                                             std::move(temporary_name), name);
}

}  // namespace lowmem
