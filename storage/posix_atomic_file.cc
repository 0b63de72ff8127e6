// SPDX-License-Identifier: Apache-2.0
// AtomicFile: bytes go to ".NAME.XXXXXXXX.tmp" in the same folder, which takes
// the name only when it is complete and on the disk.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "storage/output_file.h"
#include "storage/posix_fd.h"
#include "storage/posix_temporary_name.h"
#include "storage/unfinished_outputs.h"

namespace lowmem {
namespace {

// Small appends (a JSON text piece by piece) are gathered.
constexpr size_t kBufferBytes = 64 * kKiB;
// A model's file is far larger than a container may hold as page cache: this
// much is handed to the disk while the piece before it is waited for and
// forgotten.
constexpr uint64_t kWriteBehindBytes = 16 * kMiB;

class PosixAtomicFile final : public AtomicFile {
 public:
  PosixAtomicFile(UniqueFd folder, UniqueFd file, std::string temporary_path,
                  std::string temporary_name, std::string name,
                  std::string path)
      : folder_(std::move(folder)),
        file_(std::move(file)),
        temporary_path_(std::move(temporary_path)),
        temporary_name_(std::move(temporary_name)),
        name_(std::move(name)),
        path_(std::move(path)) {
    buffer_.reserve(kBufferBytes);
  }

  ~PosixAtomicFile() override {
    if (committed_) return;
    OutputStep step;
    unlinkat(folder_.get(), temporary_name_.c_str(), 0);
    step.Ended(temporary_path_);
  }

  absl::Status Append(absl::Span<const uint8_t> bytes) override {
    LOWMEM_RETURN_IF_ERROR(status_);
    if (bytes.size() > kBufferBytes - buffer_.size()) {
      LOWMEM_RETURN_IF_ERROR(Flush());
    }
    if (bytes.size() >= kBufferBytes) return Write(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  }

  absl::Status WriteAt(uint64_t offset,
                       absl::Span<const uint8_t> bytes) override {
    LOWMEM_RETURN_IF_ERROR(Flush());
    while (!bytes.empty()) {
      const size_t piece = std::min<uint64_t>(bytes.size(), kWriteBehindBytes);
      const ssize_t written =
          pwrite(file_.get(), bytes.data(), piece, static_cast<off_t>(offset));
      if (written < 0) {
        if (errno == EINTR) continue;
        return Fail("cannot write");
      }
      bytes.remove_prefix(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
      placed_bytes_ += static_cast<uint64_t>(written);
      if (placed_bytes_ >= kWriteBehindBytes) ForgetAll();
    }
    return absl::OkStatus();
  }

  absl::Status Commit() override {
    LOWMEM_RETURN_IF_ERROR(Flush());
    if (committed_) {
      return absl::InternalError(
          absl::StrCat(PrintablePath(path_), ": committed twice"));
    }
    if (fsync(file_.get()) != 0) return Fail("cannot write");
    LOWMEM_RETURN_IF_ERROR(Rename());
    return SyncFolder(folder_, path_);
  }

 private:
  // The first failure is also every later answer: what follows a lost piece
  // must not become a file.
  absl::Status Fail(absl::string_view what) {
    status_ = ErrnoStatus(errno, path_, what);
    return status_;
  }

  absl::Status Rename() {
    OutputStep step;
    if (renameat(folder_.get(), temporary_name_.c_str(), folder_.get(),
                 name_.c_str()) != 0) {
      return Fail("cannot rename the finished file to this name");
    }
    step.Ended(temporary_path_);
    committed_ = true;
    return absl::OkStatus();
  }

  absl::Status Flush() {
    LOWMEM_RETURN_IF_ERROR(status_);
    LOWMEM_RETURN_IF_ERROR(Write(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  absl::Status Write(absl::Span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const size_t piece = std::min<uint64_t>(bytes.size(), kWriteBehindBytes);
      const ssize_t written = write(file_.get(), bytes.data(), piece);
      if (written < 0) {
        if (errno == EINTR) continue;
        return Fail("cannot write");
      }
      bytes.remove_prefix(static_cast<size_t>(written));
      written_bytes_ += static_cast<uint64_t>(written);
      WriteBehind();
    }
    return absl::OkStatus();
  }

  // Hints only: what goes wrong here is seen by fsync.
  void WriteBehind() {
    while (written_bytes_ - started_bytes_ >= kWriteBehindBytes) {
      sync_file_range(file_.get(), static_cast<off_t>(started_bytes_),
                      kWriteBehindBytes, SYNC_FILE_RANGE_WRITE);
      if (started_bytes_ >= kWriteBehindBytes) {
        const off_t behind =
            static_cast<off_t>(started_bytes_ - kWriteBehindBytes);
        sync_file_range(file_.get(), behind, kWriteBehindBytes,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER);
        posix_fadvise(file_.get(), behind, kWriteBehindBytes,
                      POSIX_FADV_DONTNEED);
      }
      started_bytes_ += kWriteBehindBytes;
    }
  }

  // Hints again.
  void ForgetAll() {
    sync_file_range(file_.get(), 0, 0,
                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                        SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    placed_bytes_ = 0;
  }

  const UniqueFd folder_;
  const UniqueFd file_;
  const std::string temporary_path_;
  const std::string temporary_name_;
  const std::string name_;
  const std::string path_;
  std::vector<uint8_t> buffer_;
  absl::Status status_;
  uint64_t written_bytes_ = 0;
  uint64_t started_bytes_ = 0;  // handed to the disk
  uint64_t placed_bytes_ = 0;   // by WriteAt, since all was forgotten
  bool committed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    const std::string& path) {
  LOWMEM_ASSIGN_OR_RETURN(const std::string target, ResolveOutputFile(path));
  const std::string name = target.substr(target.rfind('/') + 1);
  const std::string folder_path = FolderOfPath(target);
  UniqueFd folder(
      open(folder_path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) {
    return OutputErrnoStatus(errno, path, "cannot open the folder");
  }
  std::string temporary_name;
  UniqueFd file;
  OutputStep step;
  const int error = CreateUnderTemporaryName(
      name, &temporary_name, [&](const char* candidate) {
        file = UniqueFd(openat(folder.get(), candidate,
                               O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        return file.is_open();
      });
  if (error != 0) return OutputErrnoStatus(error, path, "cannot create");
  std::string temporary_path = JoinPath(folder_path, temporary_name);
  step.Began(temporary_path);
  return std::make_unique<PosixAtomicFile>(
      std::move(folder), std::move(file), std::move(temporary_path),
      std::move(temporary_name), name, path);
}

}  // namespace lowmem
