// SPDX-License-Identifier: Apache-2.0
// ReadQueue over io_uring: the kernel has every started read at once, so the
// disk sees as many requests as there are slots, and no thread waits for it.
//
// When the kernel refuses io_uring_enter for good (a filter of system calls
// that comes later, a ring that was closed from outside), what it never got is
// read the plain way, and so is all that follows.

#include <errno.h>
#include <liburing.h>
#include <poll.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/read_queue.h"

namespace lowmem {
namespace {

constexpr uint64_t kBlockBytes = BlockFile::kBlockBytes;

// What the kernel got before it refused ends as the disk gets to it, and shows
// without a system call. Twenty seconds are the longest timeout of disks that
// are usual, twice.
constexpr int kPauseMs = 1;
constexpr int kMaxPauses = 40'000;

bool IsForAMoment(int negative_errno) {
  return negative_errno == -EINTR || negative_errno == -EAGAIN ||
         negative_errno == -EBUSY || negative_errno == -ETIME;
}

class UringReadQueue final : public ReadQueue {
 public:
  UringReadQueue(std::vector<StreamedFile> files, uint32_t num_slots)
      : files_(std::move(files)), slots_(num_slots) {}

  ~UringReadQueue() override {
    if (!is_open_) return;
    // The kernel writes to the memory of reads in flight until they end.
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].state == State::kInFlight) AwaitCompletion(slot);
    }
    io_uring_queue_exit(&ring_);
  }

  absl::Status Open() {
    const int result =
        io_uring_queue_init(static_cast<unsigned>(slots_.size()), &ring_, 0);
    if (result < 0) {
      return absl::UnimplementedError(
          "io_uring: the system has none or forbids it");
    }
    is_open_ = true;
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring_);
    const bool can_read =
        probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    if (!can_read) {
      return absl::UnimplementedError(
          "io_uring: the system's is too old; expected Linux 5.6");
    }
    return absl::OkStatus();
  }

  // Whether the system lets requests through: some forbid only that.
  absl::Status TryEmptyRequest() {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry != nullptr) {
      io_uring_prep_nop(entry);
      io_uring_cqe* completion = nullptr;
      int result;
      do {
        result = io_uring_submit_and_wait(&ring_, 1);
      } while (IsForAMoment(result));
      if (result >= 0 && io_uring_peek_cqe(&ring_, &completion) == 0) {
        io_uring_cqe_seen(&ring_, completion);
        return absl::OkStatus();
      }
    }
    return absl::UnimplementedError(
        "io_uring: the system forbids its requests");
  }

  void Start(uint32_t slot, const BlockRead& read) override {
    slots_[slot] = {read, State::kRefused, 0, 0};
    if (is_refused_) return;
    // As many entries as slots: there is room, unless the kernel took none for
    // a while.
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;
    const uint64_t tail_bytes = read.num_bytes % kBlockBytes;
    const uint64_t num_bytes =
        read.num_bytes + (tail_bytes == 0 ? 0 : kBlockBytes - tail_bytes);
    io_uring_prep_read(entry, files_[read.file_idx].blocks->descriptor(),
                       read.to, static_cast<unsigned>(num_bytes),
                       read.file_ofs);
    io_uring_sqe_set_data64(entry, slot);
    slots_[slot].state = State::kInFlight;
    slots_[slot].nth = num_started_++;
  }

  // What could not be handed over now (memory is short, or completions pile up)
  // is tried again by whoever waits.
  void Submit() override { SeeResult(io_uring_submit(&ring_)); }

  bool IsDone(uint32_t slot) override {
    TakeCompletions();
    return slots_[slot].state != State::kInFlight;
  }

  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    // Where waiting cannot be limited it is not.
    if (IsDone(slot) || is_refused_ ||
        (ring_.features & IORING_FEAT_EXT_ARG) == 0) {
      return true;
    }
    Submit();
    __kernel_timespec timeout = {.tv_sec = timeout_ms / 1000,
                                 .tv_nsec = timeout_ms % 1000 * 1'000'000LL};
    io_uring_cqe* completion = nullptr;
    const int result = io_uring_wait_cqe_timeout(&ring_, &completion, &timeout);
    // Wait has the answer to any other error.
    return IsDone(slot) || (result < 0 && !IsForAMoment(result));
  }

  absl::Status Wait(uint32_t slot) override {
    AwaitCompletion(slot);
    Slot& ended = slots_[slot];
    if (ended.state == State::kInFlight) {
      return absl::UnavailableError(
          absl::StrCat(PrintablePath(files_[ended.read.file_idx].file->path()),
                       ": io_uring: the system does not end a read"));
    }
    const bool was_refused = ended.state == State::kRefused;
    ended.state = State::kIdle;
    // What failed or came short is read again the plain way: that goes on after
    // EINTR and EAGAIN, and has the message for all else.
    const uint64_t done_bytes = was_refused || ended.result < 0
                                    ? 0
                                    : static_cast<uint64_t>(ended.result);
    if (done_bytes >= ended.read.num_bytes) return absl::OkStatus();
    return FinishRead(files_[ended.read.file_idx], ended.read, done_bytes);
  }

  std::string description() const override { return "io_uring, direct"; }

 private:
  enum class State {
    kIdle,
    kInFlight,
    kCompleted,
    kRefused,  // never reached the kernel
  };
  struct Slot {
    BlockRead read;
    State state = State::kIdle;
    int result = 0;
    uint64_t nth = 0;  // of all that were started
  };

  // Of a call that hands over: how many the kernel took, in order, or an error.
  void SeeResult(int result) {
    if (result >= 0) {
      num_taken_ += static_cast<uint64_t>(result);
    } else if (!IsForAMoment(result)) {
      is_refused_ = true;
      for (Slot& slot : slots_) {
        if (slot.state == State::kInFlight && slot.nth >= num_taken_) {
          slot.state = State::kRefused;
        }
      }
    }
  }

  void TakeCompletions() {
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0 &&
           completion != nullptr) {
      Slot& slot = slots_[io_uring_cqe_get_data64(completion)];
      slot.state = State::kCompleted;
      slot.result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      completion = nullptr;
    }
  }

  // After kMaxPauses of a refused ring the slot is still in flight.
  void AwaitCompletion(uint32_t slot) {
    TakeCompletions();
    int num_pauses = 0;
    while (slots_[slot].state == State::kInFlight) {
      if (!is_refused_) {
        // EINTR and EAGAIN are no ends: the kernel still has the memory.
        SeeResult(io_uring_submit_and_wait(&ring_, 1));
      } else if (num_pauses++ < kMaxPauses) {
        poll(nullptr, 0, kPauseMs);
      } else {
        return;
      }
      TakeCompletions();
    }
  }

  const std::vector<StreamedFile> files_;
  std::vector<Slot> slots_;
  io_uring ring_{};
  bool is_open_ = false;
  bool is_refused_ = false;   // for good
  uint64_t num_started_ = 0;  // put in the ring
  uint64_t num_taken_ = 0;    // by the kernel
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadQueue>> NewUringReadQueue(
    std::vector<StreamedFile> files, uint32_t num_slots) {
  auto queue = std::make_unique<UringReadQueue>(std::move(files), num_slots);
  LOWMEM_RETURN_IF_ERROR(queue->Open());
  LOWMEM_RETURN_IF_ERROR(queue->TryEmptyRequest());
  return queue;
}

}  // namespace lowmem
