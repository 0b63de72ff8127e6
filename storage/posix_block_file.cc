// SPDX-License-Identifier: Apache-2.0

#include "storage/posix_block_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

// Linux transfers less than 2 GiB in one call; this keeps lengths whole blocks.
constexpr size_t kMaxReadBytes = size_t{1} << 30;

// Half a second in all, the time within which a user may expect an answer.
constexpr int kPauseMs = 1;
constexpr int kMaxPauses = 500;

class PosixBlockFile final : public BlockFile {
 public:
  PosixBlockFile(UniqueFd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  int descriptor() const override { return fd_.get(); }

  absl::StatusOr<size_t> ReadSome(uint64_t offset,
                                  absl::Span<uint8_t> out) const override {
    int num_pauses = 0;
    while (true) {
      const ssize_t got =
          pread(fd_.get(), out.data(), std::min(out.size(), kMaxReadBytes),
                static_cast<off_t>(offset));
      if (got >= 0) return static_cast<size_t>(got);
      if (errno == EINTR) continue;
      if (errno != EAGAIN || num_pauses == kMaxPauses) {
        return ErrnoStatus(errno, path_, "cannot read");
      }
      // Some file systems answer so when memory is short for a moment.
      ++num_pauses;
      poll(nullptr, 0, kPauseMs);
    }
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockFile>> ReopenForBlocks(
    const UniqueFd& fd, const std::string& path, BlockCaching caching) {
  const bool is_direct = caching == BlockCaching::kDirect;
  // A link to the open file itself: where the name leads today does not matter.
  const std::string link = absl::StrCat("/proc/self/fd/", fd.get());
  int opened;
  do {
    opened = open(link.c_str(),
                  O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_direct ? O_DIRECT : 0));
  } while (opened < 0 && errno == EINTR);
  UniqueFd again(opened);
  if (!again.is_open()) {
    return absl::UnimplementedError(absl::StrCat(
        PrintablePath(path), ": ", is_direct ? "direct reads" : "opening again",
        ": not possible here"));
  }
  struct stat first;
  struct stat second;
  if (fstat(fd.get(), &first) != 0 || fstat(again.get(), &second) != 0) {
    return ErrnoStatus(errno, path, "cannot look at the file");
  }
  if (first.st_dev != second.st_dev || first.st_ino != second.st_ino) {
    return absl::UnavailableError(absl::StrCat(
        PrintablePath(path), ": opened again, it is another file"));
  }
  // Pieces are read whole; what the kernel read beyond would stay in the cache.
  if (!is_direct) posix_fadvise(again.get(), 0, 0, POSIX_FADV_RANDOM);
  return std::make_unique<PosixBlockFile>(std::move(again), path);
}

}  // namespace lowmem
