// SPDX-License-Identifier: Apache-2.0
#include "storage/read_queue.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/adaptive_read_queue.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

constexpr uint64_t kBlockBytes = BlockFile::kBlockBytes;

// A thread with a direct read has one request at the disk; disks want several.
constexpr uint32_t kDirectThreads = 4;
// Copying out of the page cache is work of the processor, and two threads
// reached the full rate of a disk of 2.4 GB/s.
constexpr uint32_t kBufferedThreads = 2;

// A file whose header was read is no cached file.
constexpr uint64_t kCachedPart = 64;

// Between two looks at the flag that cancels.
constexpr int kCancelPeriodMs = 50;

uint64_t RoundDown(uint64_t num_bytes) {
  return num_bytes - num_bytes % kBlockBytes;
}
uint64_t RoundUp(uint64_t num_bytes) {
  return RoundDown(num_bytes + kBlockBytes - 1);
}

// A file that has no second descriptor.
class PlainBlockFile final : public BlockFile {
 public:
  explicit PlainBlockFile(const RandomAccessFile& file) : file_(file) {}
  int descriptor() const override { return -1; }
  absl::StatusOr<size_t> ReadSome(uint64_t offset,
                                  absl::Span<uint8_t> out) const override {
    if (offset >= file_.size_bytes()) return 0;
    const size_t count = static_cast<size_t>(
        std::min<uint64_t>(out.size(), file_.size_bytes() - offset));
    LOWMEM_RETURN_IF_ERROR(file_.Read(offset, out.first(count)));
    return count;
  }

 private:
  const RandomAccessFile& file_;
};

// Whether direct reads work at all: some file systems let a file be opened so
// and refuse the first read.
absl::Status Probe(const std::vector<StreamedFile>& files,
                   absl::Span<uint8_t> probe) {
  for (const StreamedFile& file : files) {
    const absl::Status status =
        file.blocks->ReadSome(0, probe.first(kBlockBytes)).status();
    if (!status.ok()) {
      return absl::UnimplementedError(
          absl::StrCat("direct reads: ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReadQueue>> OpenBuffered(
    const Checkpoint& checkpoint, const ReadQueueOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(
      std::vector<StreamedFile> files,
      OpenStreamedFiles(checkpoint, BlockCaching::kBuffered));
  return NewThreadReadQueue(std::move(files), options.num_slots,
                            std::min(options.num_slots, kBufferedThreads),
                            BlockCaching::kBuffered, options.leave_no_cache);
}

// What the cache holds by now would be read fast, once.
bool IsHardlyCached(const Checkpoint& checkpoint) {
  for (const auto& file : checkpoint.files()) {
    const std::optional<uint64_t> cached_bytes = file->CachedBytes();
    if (!cached_bytes || *cached_bytes > file->size_bytes() / kCachedPart) {
      return false;
    }
  }
  return true;
}

double SteadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::StatusOr<std::unique_ptr<ReadQueue>> OpenDirect(
    const Checkpoint& checkpoint, const ReadQueueOptions& options,
    bool with_uring, absl::Span<uint8_t> probe) {
  LOWMEM_ASSIGN_OR_RETURN(std::vector<StreamedFile> files,
                          OpenStreamedFiles(checkpoint, BlockCaching::kDirect));
  LOWMEM_RETURN_IF_ERROR(Probe(files, probe));
  if (with_uring) return NewUringReadQueue(std::move(files), options.num_slots);
  return NewThreadReadQueue(std::move(files), options.num_slots,
                            std::min(options.num_slots, kDirectThreads),
                            BlockCaching::kDirect, options.leave_no_cache);
}

}  // namespace

absl::Status WaitUnlessCancelled(ReadQueue& queue, uint32_t slot,
                                 const std::atomic<bool>* cancel) {
  if (cancel == nullptr) return absl::OkStatus();
  while (!cancel->load(std::memory_order_relaxed)) {
    if (queue.WaitAtMost(slot, kCancelPeriodMs)) return absl::OkStatus();
  }
  // What is there may be taken all the same.
  return queue.IsDone(slot) ? absl::OkStatus()
                            : absl::CancelledError("interrupted");
}

absl::Status FinishRead(const StreamedFile& file, const BlockRead& read,
                        uint64_t done_bytes) {
  uint64_t done = RoundDown(std::min(done_bytes, read.num_bytes));
  while (done < read.num_bytes) {
    LOWMEM_ASSIGN_OR_RETURN(
        const size_t got,
        file.blocks->ReadSome(read.file_ofs + done,
                              {read.to + done, static_cast<size_t>(RoundUp(
                                                   read.num_bytes - done))}));
    if (got >= read.num_bytes - done) break;
    // Part of a block is what the end of a file gives, and only that.
    if (RoundDown(got) == 0) {
      return absl::UnavailableError(absl::StrCat(
          PrintablePath(file.file->path()),
          ": the file became shorter; expected ", read.num_bytes,
          " bytes at offset ", read.file_ofs, ", got ", done + got));
    }
    done += RoundDown(got);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StreamedFile>> OpenStreamedFiles(
    const Checkpoint& checkpoint, BlockCaching caching) {
  std::vector<StreamedFile> files;
  for (const auto& file : checkpoint.files()) {
    absl::StatusOr<std::unique_ptr<BlockFile>> blocks = file->Reopen(caching);
    if (absl::IsUnimplemented(blocks.status()) &&
        caching == BlockCaching::kBuffered) {
      blocks = std::make_unique<PlainBlockFile>(*file);
    }
    if (!blocks.ok()) return blocks.status();
    files.push_back({file.get(), *std::move(blocks)});
  }
  return files;
}

absl::StatusOr<std::unique_ptr<ReadQueue>> OpenReadQueue(
    const Checkpoint& checkpoint, const ReadQueueOptions& options,
    absl::Span<uint8_t> probe) {
  const IoMethod method = options.method;
  const bool is_auto = method == IoMethod::kAuto;
  const bool tries_direct = is_auto && options.leave_no_cache;
  std::vector<std::unique_ptr<ReadQueue>> queues;
  for (const IoMethod direct : {IoMethod::kUring, IoMethod::kDirectPread}) {
    if (method != direct && !tries_direct) continue;
    absl::StatusOr<std::unique_ptr<ReadQueue>> queue =
        OpenDirect(checkpoint, options, direct == IoMethod::kUring, probe);
    if (queue.ok()) {
      queues.push_back(*std::move(queue));
    } else if (!is_auto ||
               (queues.empty() && !absl::IsUnimplemented(queue.status()))) {
      return queue.status();
    }
  }
  const bool tries_buffered =
      is_auto && options.may_try_buffered && IsHardlyCached(checkpoint);
  if (queues.empty() || tries_buffered) {
    absl::StatusOr<std::unique_ptr<ReadQueue>> queue =
        OpenBuffered(checkpoint, options);
    if (queue.ok()) {
      queues.push_back(*std::move(queue));
    } else if (queues.empty()) {
      return queue.status();
    }
  }
  return NewAdaptiveReadQueue(std::move(queues), options.num_slots,
                              SteadySeconds);
}

}  // namespace lowmem
