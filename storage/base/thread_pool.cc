// SPDX-License-Identifier: Apache-2.0
// One atomic word says which job is open and how many workers are in it. A
// worker joins an open job by adding one; the caller works too, closes the job
// when the items are handed out, and waits for those who joined. A worker that
// wakes too late finds the job closed, so a short loop never waits for a
// sleeper.
//
// A token takes a few hundred loops with short gaps, and waking a thread costs
// as much as a small loop, so both sides spin for kSpinTime before they sleep.

#include "storage/base/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lowmem {
namespace {

using RangeBody = absl::FunctionRef<void(size_t, size_t, size_t)>;

constexpr size_t kMaxThreads = 1024;
constexpr auto kSpinTime = std::chrono::microseconds(60);
constexpr int kPausesPerClockRead = 32;

// Enough pieces that a core which runs at half speed costs little, few enough
// that the counter is touched rarely.
constexpr size_t kPiecesPerThread = 8;

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__ARM_ARCH_7A__)
  asm volatile("yield" ::: "memory");
#endif
}

template <typename Condition>
bool SpinUntil(Condition condition, std::chrono::microseconds limit) {
  if (condition()) return true;
  if (limit.count() == 0) return false;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      Pause();
      if (condition()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// The word: job number, open or closed, workers inside.
constexpr uint64_t kInsideMask = 0xFFFF;
constexpr uint64_t kOpenBit = 0x10000;
constexpr int kJobShift = 17;
static_assert(kMaxThreads <= kInsideMask);

class SpinningThreadPool final : public ThreadPool {
 public:
  ~SpinningThreadPool() override {
    stop_.store(true);
    WakeWorkers();
    for (std::thread& worker : workers_) worker.join();
  }

  absl::Status Start(size_t num_threads, size_t num_processors) {
    // With more threads than processors a spinner takes the processor from the
    // one that it waits for, or the time of a quota from all.
    if (num_threads > num_processors) {
      spin_time_ = std::chrono::microseconds(0);
    }
    workers_.reserve(num_threads - 1);
    for (size_t i = 1; i < num_threads; ++i) {
      try {
        workers_.emplace_back([this, i] { Work(i); });
      } catch (const std::system_error& error) {
        return absl::ResourceExhaustedError(
            absl::StrCat("threads: the system refuses thread ", i + 1, " of ",
                         num_threads, ": ", error.what()));
      }
    }
    return absl::OkStatus();
  }

  size_t num_threads() const override { return workers_.size() + 1; }
  bool spins() const override { return spin_time_.count() > 0; }

  void ParallelFor(size_t num_items, size_t grain, RangeBody body) override {
    if (num_items == 0) return;
    grain = std::max<size_t>(grain, 1);
    const size_t num_grains = (num_items - 1) / grain + 1;
    if (workers_.empty() || num_grains == 1) return body(0, num_items, 0);

    job_.body = &body;
    job_.num_items = num_items;
    job_.piece_items =
        grain *
        std::max<size_t>(1, num_grains / (num_threads() * kPiecesPerThread));
    job_.num_pieces = (num_items - 1) / job_.piece_items + 1;
    next_piece_.store(0, std::memory_order_relaxed);

    const uint64_t job_number = (state_.load() >> kJobShift) + 1;
    state_.store((job_number << kJobShift) | kOpenBit);
    if (num_sleeping_.load() > 0) WakeWorkers();
    RunPieces(0);
    state_.fetch_and(~kOpenBit);
    WaitForWorkers();
  }

 private:
  struct Job {
    RangeBody* body;
    size_t num_items;
    size_t piece_items;
    size_t num_pieces;
  };

  void RunPieces(size_t thread_idx) {
    const Job job = job_;
    for (;;) {
      const size_t piece = next_piece_.fetch_add(1, std::memory_order_relaxed);
      if (piece >= job.num_pieces) return;
      const size_t begin = piece * job.piece_items;
      const size_t length = std::min(job.piece_items, job.num_items - begin);
      (*job.body)(begin, begin + length, thread_idx);
    }
  }

  void Work(size_t thread_idx) {
    uint64_t last_job = 0;
    while (WaitForJob(last_job)) {
      if (const std::optional<uint64_t> job = TryJoin(last_job)) {
        last_job = *job;
        RunPieces(thread_idx);
        Leave();
      }
    }
  }

  bool HasNewJob(uint64_t last_job) const {
    const uint64_t state = state_.load();
    return (state & kOpenBit) != 0 && (state >> kJobShift) != last_job;
  }

  // Returns false when the pool is being destroyed.
  bool WaitForJob(uint64_t last_job) {
    const auto ready = [&] { return stop_.load() || HasNewJob(last_job); };
    if (!SpinUntil(ready, spin_time_)) {
      std::unique_lock<std::mutex> lock(mutex_);
      // Counted before `ready` looks again: either this sees the job, or the
      // caller sees the sleeper (both are sequentially consistent).
      num_sleeping_.fetch_add(1);
      wake_workers_.wait(lock, ready);
      num_sleeping_.fetch_sub(1);
    }
    return !stop_.load();
  }

  // The job joined, if it is still open.
  std::optional<uint64_t> TryJoin(uint64_t last_job) {
    uint64_t state = state_.load();
    while ((state & kOpenBit) != 0 && (state >> kJobShift) != last_job) {
      if (state_.compare_exchange_weak(state, state + 1)) {
        return state >> kJobShift;
      }
    }
    return std::nullopt;
  }

  void Leave() {
    state_.fetch_sub(1);
    if (!caller_sleeps_.load()) return;
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_caller_.notify_one();
  }

  void WaitForWorkers() {
    const auto empty = [&] { return (state_.load() & kInsideMask) == 0; };
    if (SpinUntil(empty, spin_time_)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    caller_sleeps_.store(true);
    wake_caller_.wait(lock, empty);
    caller_sleeps_.store(false);
  }

  void WakeWorkers() {
    // A worker between its look and its sleep holds the mutex.
    { std::lock_guard<std::mutex> lock(mutex_); }
    wake_workers_.notify_all();
  }

  std::chrono::microseconds spin_time_ = kSpinTime;
  std::vector<std::thread> workers_;
  Job job_ = {};  // written while no worker is inside

  // Apart from each other: everybody adds to one while everybody polls the
  // other.
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<size_t> next_piece_{0};

  alignas(64) std::mutex mutex_;
  std::condition_variable wake_workers_;
  std::condition_variable wake_caller_;
  std::atomic<size_t> num_sleeping_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stop_{false};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadPool>> ThreadPool::Create(
    size_t num_threads, size_t num_processors) {
  if (num_threads == 0 || num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads: out of range; expected 1 to ", kMaxThreads,
                     ", got ", num_threads));
  }
  if (num_processors == 0) num_processors = std::thread::hardware_concurrency();
  auto pool = std::make_unique<SpinningThreadPool>();
  if (absl::Status started = pool->Start(num_threads, num_processors);
      !started.ok()) {
    return started;
  }
  return pool;
}

}  // namespace lowmem
