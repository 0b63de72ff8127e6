// SPDX-License-Identifier: Apache-2.0
#include "storage/adaptive_read_queue.h"

#include <utility>

#include "storage/method_trial.h"

namespace lowmem {
namespace {

class AdaptiveReadQueue final : public ReadQueue {
 public:
  AdaptiveReadQueue(std::vector<std::unique_ptr<ReadQueue>> queues,
                    uint32_t num_slots, std::function<double()> now_s)
      : queues_(std::move(queues)),
        num_open_(queues_.size(), 0),
        slots_(num_slots),
        now_s_(std::move(now_s)),
        trial_(queues_.size()) {}

  void Start(uint32_t slot, const BlockRead& read) override {
    slots_[slot] = {trial_.method(), read.num_bytes, num_started_++};
    ++num_open_[trial_.method()];
    queues_[trial_.method()]->Start(slot, read);
  }

  // Whoever the reads were given to before has submitted them.
  void Submit() override { queues_[trial_.method()]->Submit(); }

  bool IsDone(uint32_t slot) override { return QueueOf(slot).IsDone(slot); }

  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    if (IsDone(slot)) return true;
    const double begin_s = now_s_();
    const bool is_done = QueueOf(slot).WaitAtMost(slot, timeout_ms);
    waited_s_ += now_s_() - begin_s;
    return is_done;
  }

  absl::Status Wait(uint32_t slot) override {
    const bool waits = !IsDone(slot);
    const double begin_s = now_s_();
    absl::Status status = QueueOf(slot).Wait(slot);
    const double end_s = now_s_();
    if (waits) waited_s_ += end_s - begin_s;
    --num_open_[slots_[slot].method];
    SeeEnd(slots_[slot], end_s);
    if (trial_.is_settled()) CloseUnused();
    return status;
  }

  std::string description() const override {
    return queues_[trial_.method()]->description();
  }
  std::optional<double> measured_bytes_per_s() const override {
    return trial_.bytes_per_s();
  }

 private:
  struct Slot {
    size_t method = 0;
    uint64_t num_bytes = 0;
    uint64_t nth = 0;  // of all reads
  };

  ReadQueue& QueueOf(uint32_t slot) { return *queues_[slots_[slot].method]; }

  // A stretch is timed from a moment on at which as many reads are in flight as
  // at its end, all of them by its method: when the first read is over that was
  // started after the last one of another method had ended.
  void SeeEnd(const Slot& ended, double now_s) {
    switch (phase_) {
      case Phase::kOthersInFlight:
        for (size_t i = 0; i < num_open_.size(); ++i) {
          if (i != trial_.method() && num_open_[i] > 0) return;
        }
        phase_ = Phase::kFilling;
        first_nth_ = num_started_;
        return;
      case Phase::kFilling:
        if (ended.nth < first_nth_) return;
        phase_ = Phase::kTimed;
        stretch_begin_s_ = now_s;
        stretch_bytes_ = 0;
        waited_s_ = 0;
        return;
      case Phase::kTimed:
        stretch_bytes_ += ended.num_bytes;
        if (stretch_bytes_ < kStretchBytes &&
            now_s - stretch_begin_s_ < kStretchSeconds) {
          return;
        }
        trial_.Record(stretch_bytes_, now_s - stretch_begin_s_, waited_s_);
        phase_ = Phase::kOthersInFlight;
        return;
    }
  }

  // What was not chosen gives back threads, descriptors and cached pages.
  void CloseUnused() {
    if (num_queues_closed_ + 1 == queues_.size()) return;
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (i == trial_.method() || num_open_[i] > 0 || queues_[i] == nullptr) {
        continue;
      }
      queues_[i].reset();
      ++num_queues_closed_;
    }
  }

  enum class Phase { kOthersInFlight, kFilling, kTimed };

  std::vector<std::unique_ptr<ReadQueue>> queues_;  // nullptr: closed
  std::vector<uint64_t> num_open_;  // by queue: started and not waited for
  std::vector<Slot> slots_;
  const std::function<double()> now_s_;
  MethodTrial trial_;
  uint64_t num_started_ = 0;
  size_t num_queues_closed_ = 0;

  Phase phase_ = Phase::kOthersInFlight;
  uint64_t first_nth_ = 0;
  double stretch_begin_s_ = 0;
  double waited_s_ = 0;
  uint64_t stretch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<ReadQueue> NewAdaptiveReadQueue(
    std::vector<std::unique_ptr<ReadQueue>> queues, uint32_t num_slots,
    std::function<double()> now_s) {
  return std::make_unique<AdaptiveReadQueue>(std::move(queues), num_slots,
                                             std::move(now_s));
}

}  // namespace lowmem
