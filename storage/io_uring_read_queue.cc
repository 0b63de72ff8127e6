// SPDX-License-Identifier: Apache-2.0
// ReadQueue over io_uring: the kernel has every started read at once, so the
// disk sees as many requests as there are slots, and no thread waits for it.

#include <liburing.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/read_queue.h"

namespace lowmem {
namespace {

constexpr uint64_t kBlockBytes = BlockFile::kBlockBytes;

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

  void Start(uint32_t slot, const BlockRead& read) override {
    slots_[slot] = {read, State::kRefused, 0};
    // As many entries as slots, and each is submitted at once: there is room.
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
    Submit();
  }

  bool IsDone(uint32_t slot) override {
    TakeCompletions();
    return slots_[slot].state != State::kInFlight;
  }

  absl::Status Wait(uint32_t slot) override {
    AwaitCompletion(slot);
    Slot& ended = slots_[slot];
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
  };

  // What could not be handed over now (memory is short, or completions pile up)
  // is tried again by whoever waits.
  void Submit() { io_uring_submit(&ring_); }

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

  void AwaitCompletion(uint32_t slot) {
    TakeCompletions();
    while (slots_[slot].state == State::kInFlight) {
      // EINTR and EAGAIN are no ends: the kernel still has the memory.
      io_uring_submit_and_wait(&ring_, 1);
      TakeCompletions();
    }
  }

  const std::vector<StreamedFile> files_;
  std::vector<Slot> slots_;
  io_uring ring_{};
  bool is_open_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ReadQueue>> NewUringReadQueue(
    std::vector<StreamedFile> files, uint32_t num_slots) {
  auto queue = std::make_unique<UringReadQueue>(std::move(files), num_slots);
  const absl::Status status = queue->Open();
  if (!status.ok()) return status;
  return queue;
}

}  // namespace lowmem
