// SPDX-License-Identifier: Apache-2.0
#include "storage/stream_source.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/block_file.h"
#include "storage/folder.h"
#include "storage/posix_huge_pages.h"
#include "storage/stream_order.h"

namespace lowmem {
namespace {

constexpr uint64_t kBlockBytes = BlockFile::kBlockBytes;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
// Far beyond what any disk has use for, and below what would overflow a sum.
constexpr uint64_t kMaxBuffers = 4096;
constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30;

using ProgressRef =
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>;

// A row at any offset lies within this many bytes of whole blocks.
uint64_t LookupBytes(uint64_t row_bytes) {
  return (row_bytes + 2 * kBlockBytes - 1) / kBlockBytes * kBlockBytes +
         kBlockBytes;
}

absl::Status CheckRing(const StreamRingShape& ring, uint64_t max_row_bytes) {
  if (ring.buffer_bytes == 0 || ring.buffer_bytes % kBlockBytes != 0 ||
      ring.buffer_bytes > kMaxBufferBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream: buffer size; expected a multiple of ",
                     kBlockBytes, " up to 1 GiB, got ", ring.buffer_bytes));
  }
  if (ring.num_buffers < 2 || ring.num_buffers > kMaxBuffers) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream: number of buffers; expected 2 to ", kMaxBuffers,
                     ", got ", ring.num_buffers));
  }
  if (max_row_bytes > (ring.num_buffers - 1) * ring.buffer_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream: ring; expected at least ",
                     FormatBytes(max_row_bytes + ring.buffer_bytes),
                     " for the largest row, got ",
                     FormatBytes(ring.num_buffers * ring.buffer_bytes)));
  }
  return absl::OkStatus();
}

absl::Status CheckPlan(const Checkpoint& checkpoint,
                       const TensorPlacement& tensor) {
  bool fits = tensor.tensor < checkpoint.tensors().size();
  if (fits) {
    const TensorInfo& info = checkpoint.tensors()[tensor.tensor];
    fits = tensor.num_rows == info.num_rows() &&
           tensor.resident_rows <= tensor.num_rows &&
           (tensor.num_rows == 0 || tensor.row_bytes == info.row_bytes());
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(PrintablePath(checkpoint.path()),
                   ": the residency plan is of another checkpoint"));
}

class RingStreamSource final : public StreamSource {
 public:
  RingStreamSource(const Checkpoint& checkpoint, const StreamRingShape& shape)
      : checkpoint_(checkpoint),
        shape_(shape),
        places_(checkpoint.tensors().size()) {}

  absl::Status Open(ReadQueueFactory new_queue, const ResidencyPlan& plan,
                    MemoryAccount& account, ProgressRef progress) {
    LOWMEM_RETURN_IF_ERROR(CheckWholePlan(plan));
    const uint64_t max_row_bytes = MaxRowBytes(plan);
    LOWMEM_RETURN_IF_ERROR(CheckRing(shape_, max_row_bytes));
    LOWMEM_ASSIGN_OR_RETURN(block_,
                            AlignedBuffer::Allocate(plan.block_bytes, account));
    LOWMEM_ASSIGN_OR_RETURN(
        buffers_, AlignedBuffer::Allocate(
                      StreamBufferBytes(shape_, max_row_bytes), account));
    // The slot behind the ring's is for looking up.
    LOWMEM_ASSIGN_OR_RETURN(queue_,
                            new_queue(shape_.num_buffers + 1,
                                      {buffers_.data(), size_t{kBlockBytes}}));
    lookup_row_ = buffers_.data() + shape_.TotalBytes(max_row_bytes);
    const absl::Span<uint8_t> ring_memory(
        buffers_.data(), static_cast<size_t>(shape_.TotalBytes(max_row_bytes)));

    LOWMEM_RETURN_IF_ERROR(LoadResident(ResidentRanges(checkpoint_, plan),
                                        ring_memory, plan.resident_bytes,
                                        progress));
    LOWMEM_RETURN_IF_ERROR(CheckUnchanged());

    std::vector<StreamRange> ranges = StreamedRanges(checkpoint_, plan);
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      places_[ranges[i].tensor].range_idx = i;
    }
    FindFirstRanges(plan, ranges.size());
    ring_.emplace(std::move(ranges), shape_, StreamRing::Order::kCyclic,
                  *queue_, ring_memory);
    ring_->ReadAhead();
    return absl::OkStatus();
  }

  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    const Place& place = places_[tensor];
    if (row_begin < place.resident_rows) {
      return WeightLease(
          this, kResidentLease,
          block_.data() + place.block_ofs +
              row_begin * checkpoint_.tensors()[tensor].row_bytes(),
          row_begin, std::min(max_rows, place.resident_rows - row_begin));
    }
    if (!place.is_planned) {
      return absl::InternalError(
          absl::StrCat("tensor ", Printable(checkpoint_.tensors()[tensor].name),
                       ": used but not in the residency plan"));
    }
    if (check_is_due_) LOWMEM_RETURN_IF_ERROR(CheckUnchanged());
    check_is_due_ = false;
    const bool is_streamed =
        place.range_idx != kNone &&
        (max_rows > 1 || ring_->IsNext(place.range_idx, row_begin));
    return is_streamed ? AcquireStreamed(place.range_idx, row_begin, max_rows)
                       : LookUp(tensor, row_begin);
  }

  // Reading is ahead already; this is when to look whether the files are the
  // same, and when to see that a pass leaves out a step, such as the head.
  void Prefetch(const WeightStep& step) override {
    check_is_due_ = true;
    if (step.tensors.empty()) return;
    const uint32_t step_idx = places_[step.tensors[0]].step_idx;
    // Said twice: at the end of one pass and the beginning of the next.
    if (step_idx == kNone || step_idx == announced_step_idx_) return;
    const size_t usual_step_idx =
        (announced_step_idx_ + 1) % first_range_idx_of_step_.size();
    announced_step_idx_ = step_idx;
    if (ring_->ranges().empty()) return;
    ring_->LeaveOut(first_range_idx_of_step_[usual_step_idx],
                    first_range_idx_of_step_[step_idx]);
  }
  void Finish(const WeightStep&) override {}

  uint64_t resident_weight_bytes() const override {
    return resident_weight_bytes_;
  }
  std::string io_description() const override {
    return absl::StrCat(queue_->description(), ", ", shape_.num_buffers, " x ",
                        FormatBytes(shape_.buffer_bytes));
  }
  uint64_t streamed_bytes() const override {
    return ring_->started_bytes() + looked_up_bytes_;
  }

 private:
  enum LeaseKind : uint64_t { kResidentLease, kStreamedLease, kLookupLease };

  struct Place {
    bool is_planned = false;
    uint32_t step_idx = kNone;   // kNone for what is looked up
    uint32_t range_idx = kNone;  // of the ring
    uint64_t resident_rows = 0;
    uint64_t block_ofs = 0;
  };

  void Release(uint64_t token) override {
    if (token == kStreamedLease) {
      is_streamed_leased_ = false;
      ring_->GiveBack();
    } else if (token == kLookupLease) {
      is_lookup_leased_ = false;
    }
  }

  absl::Status CheckWholePlan(const ResidencyPlan& plan) {
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
      for (const TensorPlacement& tensor : plan.steps[i]) {
        LOWMEM_RETURN_IF_ERROR(CheckPlan(checkpoint_, tensor));
        places_[tensor.tensor].is_planned = true;
        places_[tensor.tensor].step_idx = i;
      }
    }
    for (const TensorPlacement& tensor : plan.looked_up) {
      LOWMEM_RETURN_IF_ERROR(CheckPlan(checkpoint_, tensor));
      places_[tensor.tensor].is_planned = true;
    }
    return absl::OkStatus();
  }

  void FindFirstRanges(const ResidencyPlan& plan, size_t num_ranges) {
    size_t range_idx = 0;
    for (const auto& step : plan.steps) {
      first_range_idx_of_step_.push_back(range_idx);
      for (const TensorPlacement& tensor : step) {
        range_idx += places_[tensor.tensor].range_idx != kNone;
      }
    }
    // After the last range comes the first.
    for (size_t& idx : first_range_idx_of_step_) {
      if (idx == num_ranges) idx = 0;
    }
  }

  absl::Status LoadResident(std::vector<StreamRange> ranges,
                            absl::Span<uint8_t> ring_memory,
                            uint64_t total_bytes, ProgressRef progress) {
    AdviseHugePages(block_.data(), block_.size_bytes());
    StreamRing ring(std::move(ranges), shape_, StreamRing::Order::kOnce,
                    *queue_, ring_memory);
    uint64_t block_ofs = 0;
    for (size_t i = 0; i < ring.ranges().size(); ++i) {
      const StreamRange& range = ring.ranges()[i];
      for (uint64_t row = 0; row < range.row_end;) {
        LOWMEM_ASSIGN_OR_RETURN(const StreamedRows rows,
                                ring.Take(i, row, range.row_end - row));
        const uint64_t num_bytes = rows.num_rows * range.row_bytes;
        std::memcpy(block_.data() + block_ofs + row * range.row_bytes,
                    rows.data, num_bytes);
        ring.GiveBack();
        row += rows.num_rows;
        resident_weight_bytes_ += num_bytes;
        LOWMEM_RETURN_IF_ERROR(progress(resident_weight_bytes_, total_bytes));
      }
      places_[range.tensor].resident_rows = range.row_end;
      places_[range.tensor].block_ofs = block_ofs;
      block_ofs += CheckedRoundUp(range.row_end * range.row_bytes,
                                  ResidencyPlan::kAlignmentBytes)
                       .value_or(0);
    }
    return absl::OkStatus();
  }

  // Old and new bytes of a file that was written meanwhile would mix.
  absl::Status CheckUnchanged() const {
    for (const auto& file : checkpoint_.files()) {
      LOWMEM_RETURN_IF_ERROR(file->CheckUnchanged());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<WeightLease> AcquireStreamed(uint32_t range_idx,
                                              uint64_t row_begin,
                                              uint64_t max_rows) {
    if (is_streamed_leased_) {
      return absl::InternalError(
          "stream: rows asked for while others are leased");
    }
    LOWMEM_ASSIGN_OR_RETURN(const StreamedRows rows,
                            ring_->Take(range_idx, row_begin, max_rows));
    is_streamed_leased_ = true;
    return WeightLease(this, kStreamedLease, rows.data, row_begin,
                       rows.num_rows);
  }

  absl::StatusOr<WeightLease> LookUp(TensorId tensor, uint64_t row) {
    if (is_lookup_leased_) {
      return absl::InternalError(
          "stream: a row looked up while another is leased");
    }
    const StreamRange range =
        RangeOfRows(checkpoint_.tensors()[tensor], tensor, row, row + 1);
    const uint32_t slot = shape_.num_buffers;
    queue_->Start(slot, {.file_idx = range.file_idx,
                         .file_ofs = range.base_ofs,
                         .num_bytes = range.num_bytes,
                         .to = lookup_row_});
    looked_up_bytes_ +=
        CheckedRoundUp(range.num_bytes, kBlockBytes).value_or(range.num_bytes);
    LOWMEM_RETURN_IF_ERROR(queue_->Wait(slot));
    is_lookup_leased_ = true;
    return WeightLease(this, kLookupLease, lookup_row_ + range.skip_bytes, row,
                       1);
  }

  const Checkpoint& checkpoint_;
  const StreamRingShape shape_;
  std::vector<Place> places_;                    // by TensorId
  std::vector<size_t> first_range_idx_of_step_;  // streamed in it, or after it
  uint32_t announced_step_idx_ = 0;
  AlignedBuffer block_;    // resident rows
  AlignedBuffer buffers_;  // of the ring, then of the row that is looked up
  uint8_t* lookup_row_ = nullptr;
  uint64_t resident_weight_bytes_ = 0;
  uint64_t looked_up_bytes_ = 0;
  bool check_is_due_ = true;
  bool is_streamed_leased_ = false;
  bool is_lookup_leased_ = false;
  // The ring waits for its reads when it goes, then the queue goes, then
  // memory.
  std::unique_ptr<ReadQueue> queue_;
  std::optional<StreamRing> ring_;
};

}  // namespace

uint64_t StreamBufferBytes(const StreamRingShape& ring,
                           uint64_t max_row_bytes) {
  return ring.TotalBytes(max_row_bytes) + LookupBytes(max_row_bytes);
}

absl::StatusOr<std::unique_ptr<StreamSource>> NewStreamSource(
    const Checkpoint& checkpoint, const ResidencyPlan& plan,
    const StreamSourceOptions& options, MemoryAccount& account,
    ProgressRef progress) {
  return NewStreamSourceOver(
      [&](uint32_t num_slots, absl::Span<uint8_t> probe) {
        return OpenReadQueue(checkpoint,
                             {.method = options.io_method,
                              .num_slots = num_slots,
                              .leave_no_cache = options.leave_no_cache},
                             probe);
      },
      checkpoint, plan, options.ring, account, progress);
}

absl::StatusOr<std::unique_ptr<StreamSource>> NewStreamSourceOver(
    ReadQueueFactory new_queue, const Checkpoint& checkpoint,
    const ResidencyPlan& plan, const StreamRingShape& ring,
    MemoryAccount& account, ProgressRef progress) {
  auto source = std::make_unique<RingStreamSource>(checkpoint, ring);
  LOWMEM_RETURN_IF_ERROR(source->Open(new_queue, plan, account, progress));
  return source;
}

}  // namespace lowmem
