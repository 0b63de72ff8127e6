// SPDX-License-Identifier: Apache-2.0
// ReadQueue by a few threads that wait for the disk in turn. Requests are taken
// in the order in which they were started, which is the order in which the
// caller needs them.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/read_queue.h"

namespace lowmem {
namespace {

using Clock = std::chrono::steady_clock;

// How much a thread asks of the disk in one call. Nothing ends a direct read
// before the disk has answered, the end of the process no more than a signal;
// so a slow disk is asked for little at a time. At the rate of a good one the
// first few reads are short, and the others whole.
class PieceSize {
 public:
  uint64_t num_bytes() const { return num_bytes_; }
  void Took(Clock::duration time) {
    if (time > kTooLong) {
      num_bytes_ = std::max(num_bytes_ / 2, kLeastBytes);
    } else if (time < kTooLong / 2) {
      num_bytes_ = std::min(num_bytes_ * 2, kMostBytes);
    }
  }

 private:
  static constexpr uint64_t kLeastBytes = 16 * kKiB;
  static constexpr uint64_t kMostBytes = kGiB;
  static constexpr std::chrono::milliseconds kTooLong{100};
  uint64_t num_bytes_ = kLeastBytes;
};

class ThreadReadQueue final : public ReadQueue {
 public:
  ThreadReadQueue(std::vector<StreamedFile> files, uint32_t num_slots,
                  BlockCaching caching, bool leave_no_cache)
      : files_(std::move(files)),
        is_direct_(caching == BlockCaching::kDirect),
        drops_behind_(!is_direct_ && leave_no_cache),
        slots_(num_slots) {}

  ~ThreadReadQueue() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_stopping_.store(true);
      waiting_.clear();  // what is not begun need not be
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    if (!drops_behind_) return;
    // Pages that were in use by another reader when they were to go.
    for (const StreamedFile& file : files_) {
      file.file->DropCache(0, file.file->size_bytes());
    }
  }

  absl::Status StartThreads(uint32_t num_threads) {
    for (uint32_t i = 0; i < num_threads; ++i) {
      try {
        threads_.emplace_back([this] { Serve(); });
      } catch (const std::system_error&) {
        // One is enough to go on with.
        if (!threads_.empty()) break;
        return absl::ResourceExhaustedError(
            "stream: the system refuses a thread that reads");
      }
    }
    return absl::OkStatus();
  }

  void Start(uint32_t slot, const BlockRead& read) override {
    slots_[slot].read = read;
    slots_[slot].is_done.store(false, std::memory_order_relaxed);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(slot);
    }
    work_.notify_one();
  }

  void Submit() override {}  // Start did

  bool IsDone(uint32_t slot) override {
    return slots_[slot].is_done.load(std::memory_order_acquire);
  }

  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    if (IsDone(slot)) return true;
    std::unique_lock<std::mutex> lock(mutex_);
    return done_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                          [&] { return IsDone(slot); });
  }

  absl::Status Wait(uint32_t slot) override {
    if (!IsDone(slot)) {
      std::unique_lock<std::mutex> lock(mutex_);
      done_.wait(lock, [&] { return IsDone(slot); });
    }
    return std::exchange(slots_[slot].status, absl::OkStatus());
  }

  std::string description() const override {
    return absl::StrCat(threads_.size(), " reading thread",
                        threads_.size() == 1 ? ", " : "s, ",
                        is_direct_      ? "direct"
                        : drops_behind_ ? "buffered, dropped behind"
                                        : "buffered");
  }

 private:
  struct Slot {
    BlockRead read;
    absl::Status status;
    std::atomic<bool> is_done{false};
  };

  void Serve() {
    PieceSize piece;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Slot& slot = slots_[waiting_.front()];
      waiting_.pop_front();
      lock.unlock();
      slot.status = Read(slot.read, piece);
      lock.lock();
      slot.is_done.store(true, std::memory_order_release);
      done_.notify_all();
    }
  }

  absl::Status Read(const BlockRead& read, PieceSize& piece) const {
    const StreamedFile& file = files_[read.file_idx];
    absl::Status status = is_direct_ ? ReadInPieces(file, read, piece)
                                     : FinishRead(file, read, 0);
    if (drops_behind_) {
      // Whole blocks, or the page that holds the end would stay.
      const uint64_t tail_bytes = read.num_bytes % BlockFile::kBlockBytes;
      const uint64_t num_bytes =
          read.num_bytes +
          (tail_bytes == 0 ? 0 : BlockFile::kBlockBytes - tail_bytes);
      file.file->DropCache(read.file_ofs, num_bytes);
    }
    return status;
  }

  absl::Status ReadInPieces(const StreamedFile& file, const BlockRead& read,
                            PieceSize& piece) const {
    for (uint64_t done = 0; done < read.num_bytes;) {
      if (is_stopping_.load()) return absl::CancelledError("interrupted");
      BlockRead part = read;
      part.file_ofs += done;
      part.to += done;
      part.num_bytes = std::min(piece.num_bytes(), read.num_bytes - done);
      const Clock::time_point begin = Clock::now();
      LOWMEM_RETURN_IF_ERROR(FinishRead(file, part, 0));
      piece.Took(Clock::now() - begin);
      done += part.num_bytes;
    }
    return absl::OkStatus();
  }

  const std::vector<StreamedFile> files_;
  const bool is_direct_;
  const bool drops_behind_;
  std::vector<Slot> slots_;  // never resized: threads hold references

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<uint32_t> waiting_;  // guarded by mutex_
  // Written under mutex_; reading threads look at it between two pieces, too.
  std::atomic<bool> is_stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadQueue>> NewThreadReadQueue(
    std::vector<StreamedFile> files, uint32_t num_slots, uint32_t num_threads,
    BlockCaching caching, bool leave_no_cache) {
  auto queue = std::make_unique<ThreadReadQueue>(std::move(files), num_slots,
                                                 caching, leave_no_cache);
  const absl::Status status = queue->StartThreads(num_threads);
  if (!status.ok()) return status;
  return queue;
}

}  // namespace lowmem
