// SPDX-License-Identifier: Apache-2.0
// RandomAccessFile over a descriptor and pread, and how files and folders are
// opened. One open per file: everything later goes through the descriptor.

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "storage/posix_block_file.h"
#include "storage/posix_fd.h"
#include "storage/posix_mapping.h"

namespace lowmem {
namespace {

// O_NONBLOCK: a FIFO or device returns at once and is then refused by its kind.
// O_NOCTTY: opening a terminal must not make it ours.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// Linux transfers at most this much in one call.
constexpr size_t kMaxReadBytes = 0x7ffff000;

int OpenRetrying(int folder, const char* name, int flags) {
  int fd;
  do {
    fd = openat(folder, name, flags);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

bool SameTime(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

absl::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

class PosixFile final : public RandomAccessFile {
 public:
  PosixFile(UniqueFd fd, std::string path, const struct stat& info)
      : fd_(std::make_shared<const UniqueFd>(std::move(fd))),
        path_(std::move(path)),
        opened_(info) {}

  const std::string& path() const override { return path_; }
  uint64_t size_bytes() const override {
    return static_cast<uint64_t>(opened_.st_size);
  }

  absl::Status Read(uint64_t offset, absl::Span<uint8_t> out) const override {
    constexpr uint64_t kMaxOffset = std::numeric_limits<off_t>::max();
    if (!RangeFits(offset, out.size(), kMaxOffset))
      return TooShort(offset, out);
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t got = pread(fd_->get(), out.data() + done,
                                std::min(out.size() - done, kMaxReadBytes),
                                static_cast<off_t>(offset + done));
      if (got > 0) {
        done += static_cast<size_t>(got);
      } else if (got == 0) {
        return TooShort(offset, out);
      } else if (errno != EINTR) {
        return ErrnoStatus(errno, path_, "cannot read");
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileMapping>> Map() const override {
    return MapFile(fd_, size_bytes(), path_);
  }

  void Prefetch(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes()) return;
    length = std::min(length, size_bytes() - offset);
    if (length == 0) return;
    posix_fadvise(fd_->get(), static_cast<off_t>(offset),
                  static_cast<off_t>(length), POSIX_FADV_WILLNEED);
  }

  void DropCache(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes()) return;
    length = std::min(length, size_bytes() - offset);
    if (length == 0) return;
    // 0 is "to the end": a part of a page is kept anywhere but there.
    if (offset + length == size_bytes()) length = 0;
    posix_fadvise(fd_->get(), static_cast<off_t>(offset),
                  static_cast<off_t>(length), POSIX_FADV_DONTNEED);
  }

  std::optional<uint64_t> CachedBytes() const override {
    return CountCachedBytes(*fd_, size_bytes());
  }

  absl::Status CheckUnchanged() const override {
    struct stat now;
    if (fstat(fd_->get(), &now) != 0) {
      return ErrnoStatus(errno, path_, "cannot look at the file");
    }
    if (now.st_size != opened_.st_size) {
      return absl::UnavailableError(
          absl::StrCat(PrintablePath(path_),
                       ": the file changed while it was in use; expected ",
                       opened_.st_size, " bytes, got ", now.st_size));
    }
    if (!SameTime(now.st_mtim, opened_.st_mtim) ||
        !SameTime(now.st_ctim, opened_.st_ctim)) {
      return absl::UnavailableError(absl::StrCat(
          PrintablePath(path_),
          ": the file was written or replaced while it was in use; load the "
          "model again"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BlockFile>> Reopen(
      BlockCaching caching) const override {
    return ReopenForBlocks(*fd_, path_, caching);
  }

 private:
  absl::Status TooShort(uint64_t offset, absl::Span<uint8_t> out) const {
    return absl::UnavailableError(absl::StrCat(
        PrintablePath(path_), ": the file became shorter; expected ",
        out.size(), " bytes at offset ", offset));
  }

  const std::shared_ptr<const UniqueFd> fd_;  // shared with mappings
  const std::string path_;
  const struct stat opened_;
};

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenBeneath(
    int folder, const std::string& name, const std::string& path) {
  if (name.find('\0') != std::string::npos) {
    return ErrnoStatus(ENOENT, path, "cannot open");
  }
  UniqueFd fd(OpenRetrying(folder, name.c_str(), kReadFlags));
  if (!fd.is_open()) {
    // What a socket, or a device without a driver, answers.
    if (errno == ENXIO || errno == ENODEV) {
      return absl::DataLossError(
          absl::StrCat(PrintablePath(path),
                       ": not a regular file; it is a socket or a device"));
    }
    return ErrnoStatus(errno, path, "cannot open");
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, path, "cannot look at the file");
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(absl::StrCat(PrintablePath(path),
                                            ": not a regular file; it is ",
                                            KindOf(info.st_mode)));
  }
  return std::make_unique<PosixFile>(std::move(fd), path, info);
}

class PosixFolder final : public Folder {
 public:
  PosixFolder(UniqueFd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFile(
      const std::string& name) const override {
    return OpenBeneath(fd_.get(), name, JoinPath(path_, name));
  }

  bool Has(const std::string& name) const override {
    return faccessat(fd_.get(), name.c_str(), F_OK, 0) == 0;
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFile(
    const std::string& path) {
  return OpenBeneath(AT_FDCWD, path, path);
}

absl::StatusOr<std::unique_ptr<Folder>> OpenFolder(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return ErrnoStatus(ENOENT, path, "cannot open");
  }
  UniqueFd fd(OpenRetrying(AT_FDCWD, path.c_str(), kReadFlags | O_DIRECTORY));
  if (!fd.is_open()) return ErrnoStatus(errno, path, "cannot open");
  return std::make_unique<PosixFolder>(std::move(fd), path);
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace lowmem
