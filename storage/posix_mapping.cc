// SPDX-License-Identifier: Apache-2.0
#include "storage/posix_mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/units.h"

// Linux 5.14; older headers lack it, and older kernels answer EINVAL.
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

namespace lowmem {
namespace {

// Pages looked at before the kernel is asked to bring a range in. Asking makes
// it walk the whole range in the page cache, which takes a sixth of a decode
// step when all of it is there already; a few pages tell that for a
// microsecond.
constexpr uint64_t kProbedPages = 8;

// Mapped at once while counting cached pages: 64 Ki pages, so 64 KiB of answer.
constexpr uint64_t kCountWindowBytes = 256 * kMiB;

// Since Linux 5.2 mincore says "all of it" to who may not write the file.
bool MayAskForPages(const UniqueFd& fd) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return false;
  if (geteuid() == 0 || info.st_uid == geteuid()) return true;
  const std::string self = absl::StrCat("/proc/self/fd/", fd.get());
  return faccessat(AT_FDCWD, self.c_str(), W_OK, AT_EACCESS) == 0;
}

class PosixMapping final : public FileMapping {
 public:
  PosixMapping(std::shared_ptr<const UniqueFd> fd, std::string path,
               uint8_t* data, size_t size_bytes)
      : fd_(std::move(fd)),
        path_(std::move(path)),
        data_(data),
        size_bytes_(size_bytes),
        may_ask_for_pages_(MayAskForPages(*fd_)) {}
  ~PosixMapping() override {
    if (size_bytes_ > 0) munmap(data_, size_bytes_);
  }

  absl::Span<const uint8_t> bytes() const override {
    return {data_, size_bytes_};
  }

  void Prefetch(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes_) return;
    const uint64_t end = offset + std::min(length, size_bytes_ - offset);
    const uint64_t begin = offset - offset % PageBytes();
    if (end <= begin || LooksResident(begin, end)) return;
    madvise(data_ + begin, end - begin, MADV_WILLNEED);
  }

  void Drop(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes_) return;
    const uint64_t page = PageBytes();
    uint64_t end = offset + std::min(length, size_bytes_ - offset);
    // The page that holds the end of the file has nothing behind it.
    if (end != size_bytes_) end -= end % page;
    const uint64_t begin = (offset + page - 1) / page * page;
    if (begin >= end) return;
    madvise(data_ + begin, end - begin, MADV_DONTNEED);
    // Only pages that no process maps leave the cache, hence after the above.
    posix_fadvise(fd_->get(), static_cast<off_t>(begin),
                  end == size_bytes_ ? 0 : static_cast<off_t>(end - begin),
                  POSIX_FADV_DONTNEED);
  }

  void AdviseSinglePages() override {
    if (size_bytes_ == 0) return;
    is_by_single_pages_ = true;
    TakeSinglePages(0, size_bytes_);
  }

  absl::Status Populate(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes_) return absl::OkStatus();
    const uint64_t end = offset + std::min(length, size_bytes_ - offset);
    const uint64_t begin = offset - offset % PageBytes();
    while (end > begin) {
      if (madvise(data_ + begin, end - begin, MADV_POPULATE_READ) == 0) break;
      if (errno == EINVAL) break;  // an older kernel
      if (errno == EINTR) continue;
      if (errno == ENOMEM) return ErrnoStatus(errno, path_, "cannot map pages");
      // Beyond the end of the file, or a disk that fails: both are EFAULT.
      return ErrnoStatus(EIO, path_, "cannot read");
    }
    return absl::OkStatus();
  }

  void FreePageTables(uint64_t offset, uint64_t length) const override {
    if (offset >= size_bytes_) return;
    const uint64_t span = PageTableSpanBytes();
    uint64_t end = offset + std::min(length, size_bytes_ - offset);
    end -= end % span;
    const uint64_t begin = (offset + span - 1) / span * span;
    if (begin >= end) return;
    // Giving back the pages leaves their tables, but mapping the range over
    // itself does not. Limits that make this fail are looked at before anything
    // is taken away.
    if (mmap(data_ + begin, end - begin, PROT_READ, MAP_SHARED | MAP_FIXED,
             fd_->get(), static_cast<off_t>(begin)) == MAP_FAILED) {
      return;
    }
    // And makes it one with its neighbours again.
    if (is_by_single_pages_) TakeSinglePages(begin, end - begin);
  }

 private:
  void TakeSinglePages(uint64_t begin, uint64_t length) const {
    madvise(data_ + begin, length, MADV_RANDOM);
#ifdef MADV_NOHUGEPAGE
    madvise(data_ + begin, length, MADV_NOHUGEPAGE);
#endif
  }

  // Whether pages spread over [begin, end) are all in memory. `begin` is a
  // page's.
  bool LooksResident(uint64_t begin, uint64_t end) const {
    if (!may_ask_for_pages_) return false;
    const uint64_t page = PageBytes();
    const uint64_t num_pages = (end - begin + page - 1) / page;
    const uint64_t num_probes = std::min(kProbedPages, num_pages);
    for (uint64_t i = 0; i < num_probes; ++i) {
      const uint64_t page_idx =
          num_probes == 1 ? 0 : i * (num_pages - 1) / (num_probes - 1);
      unsigned char in_core = 0;
      if (mincore(data_ + begin + page_idx * page, page, &in_core) != 0 ||
          (in_core & 1) == 0) {
        return false;
      }
    }
    return true;
  }

  const std::shared_ptr<const UniqueFd> fd_;
  const std::string path_;
  uint8_t* const data_;
  const size_t size_bytes_;
  const bool may_ask_for_pages_;
  bool is_by_single_pages_ = false;
};

// MAP_FAILED when there is no such room.
void* MapAligned(size_t size_bytes, uint64_t alignment, int fd) {
  if (size_bytes < alignment ||
      size_bytes > std::numeric_limits<size_t>::max() - alignment) {
    return mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  }
  // Room that surely holds an aligned part of that size; the rest is given
  // back.
  const size_t room_bytes = size_bytes + static_cast<size_t>(alignment);
  void* const room = mmap(nullptr, room_bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  uint8_t* const begin = static_cast<uint8_t*>(room);
  const size_t in_front_bytes = static_cast<size_t>(
      (alignment - reinterpret_cast<uintptr_t>(room) % alignment) % alignment);
  void* const data = mmap(begin + in_front_bytes, size_bytes, PROT_READ,
                          MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    munmap(room, room_bytes);
    errno = error;
    return MAP_FAILED;
  }
  const size_t page = static_cast<size_t>(PageBytes());
  const size_t mapped_bytes = (size_bytes + page - 1) / page * page;
  if (in_front_bytes > 0) munmap(begin, in_front_bytes);
  if (room_bytes > in_front_bytes + mapped_bytes) {
    munmap(begin + in_front_bytes + mapped_bytes,
           room_bytes - in_front_bytes - mapped_bytes);
  }
  return data;
}

}  // namespace

uint64_t PageBytes() {
  static const uint64_t page_bytes =
      static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return page_bytes;
}

uint64_t PageTableSpanBytes() {
  constexpr uint64_t kEntryBytes = 8;  // of all systems with 64-bit addresses
  return PageBytes() / kEntryBytes * PageBytes();
}

absl::StatusOr<std::unique_ptr<FileMapping>> MapFile(
    std::shared_ptr<const UniqueFd> fd, uint64_t size_bytes,
    const std::string& path) {
  if (size_bytes == 0) {
    return std::make_unique<PosixMapping>(std::move(fd), path, nullptr, 0);
  }
  if (size_bytes > std::numeric_limits<size_t>::max()) {
    return ErrnoStatus(ENOMEM, path, "cannot map the file");
  }
  void* data = MapAligned(static_cast<size_t>(size_bytes), PageTableSpanBytes(),
                          fd->get());
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, path, "cannot map the file");
  }
  return std::make_unique<PosixMapping>(std::move(fd), path,
                                        static_cast<uint8_t*>(data),
                                        static_cast<size_t>(size_bytes));
}

std::optional<uint64_t> CountCachedBytes(const UniqueFd& fd,
                                         uint64_t size_bytes) {
  if (!MayAskForPages(fd)) return std::nullopt;
  const uint64_t page = PageBytes();
  std::vector<unsigned char> in_core;
  uint64_t cached_bytes = 0;
  for (uint64_t ofs = 0; ofs < size_bytes; ofs += kCountWindowBytes) {
    const size_t length =
        static_cast<size_t>(std::min(kCountWindowBytes, size_bytes - ofs));
    in_core.resize((length + page - 1) / page);
    void* window = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd.get(),
                        static_cast<off_t>(ofs));
    if (window == MAP_FAILED) return std::nullopt;
    const int result = mincore(window, length, in_core.data());
    munmap(window, length);
    if (result != 0) return std::nullopt;
    for (size_t i = 0; i < in_core.size(); ++i) {
      if ((in_core[i] & 1) == 0) continue;
      cached_bytes += std::min<uint64_t>(page, length - i * page);
    }
  }
  return cached_bytes;
}

}  // namespace lowmem
