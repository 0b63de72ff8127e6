// SPDX-License-Identifier: Apache-2.0
// ReadQueue by a few threads that wait for the disk in turn. Requests are taken
// in the order in which they were started, which is the order in which the
// caller needs them.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/read_queue.h"

namespace lowmem {
namespace {

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
      is_stopping_ = true;
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
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      work_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      Slot& slot = slots_[waiting_.front()];
      waiting_.pop_front();
      lock.unlock();
      slot.status = Read(slot.read);
      lock.lock();
      slot.is_done.store(true, std::memory_order_release);
      done_.notify_all();
    }
  }

  absl::Status Read(const BlockRead& read) const {
    const StreamedFile& file = files_[read.file_idx];
    absl::Status status = FinishRead(file, read, 0);
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

  const std::vector<StreamedFile> files_;
  const bool is_direct_;
  const bool drops_behind_;
  std::vector<Slot> slots_;  // never resized: threads hold references

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::deque<uint32_t> waiting_;  // guarded by mutex_
  bool is_stopping_ = false;      // guarded by mutex_
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
