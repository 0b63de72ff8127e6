// SPDX-License-Identifier: Apache-2.0
#include "storage/stream_source.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/block_file.h"
#include "storage/planned_rows.h"
#include "storage/posix_huge_pages.h"
#include "storage/stream_order.h"

namespace lowmem {
namespace {

constexpr uint64_t kBlockBytes = BlockFile::kBlockBytes;
// Far beyond what any disk has use for, and below what would overflow a sum.
constexpr uint64_t kMaxBuffers = 4096;
constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30;

// A source of this size is that of a budget which has some MB to spare.
constexpr uint64_t kMinBytesForCached = 32 * kMiB;

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

class RingStreamSource final : public StreamSource {
 public:
  RingStreamSource(const Checkpoint& checkpoint, PlannedRows rows,
                   const StreamRingShape& shape,
                   const std::atomic<bool>* cancel)
      : checkpoint_(checkpoint),
        rows_(std::move(rows)),
        shape_(shape),
        cancel_(cancel) {}

  absl::Status Open(ReadQueueFactory new_queue, const ResidencyPlan& plan,
                    MemoryAccount& account, ProgressRef progress) {
    const uint64_t max_row_bytes = MaxRowBytes(plan);
    LOWMEM_RETURN_IF_ERROR(CheckRing(shape_, max_row_bytes));
    const uint64_t lookup_bytes = LookupBytes(max_row_bytes);
    const uint64_t ring_bytes = shape_.TotalBytes(max_row_bytes);
    // Before the block: while no resident row is held there is most memory for
    // what making it contiguous takes for a moment.
    LOWMEM_ASSIGN_OR_RETURN(buffers_,
                            AlignedBuffer::AllocateContiguous(
                                lookup_bytes + ring_bytes,
                                lookup_bytes + ring_bytes -
                                    shape_.num_buffers * shape_.buffer_bytes,
                                account));
    LOWMEM_ASSIGN_OR_RETURN(block_,
                            AlignedBuffer::Allocate(plan.block_bytes, account));
    // The slot behind the ring's is for looking up.
    LOWMEM_ASSIGN_OR_RETURN(queue_,
                            new_queue(shape_.num_buffers + 1,
                                      {buffers_.data(), size_t{kBlockBytes}}));
    lookup_row_ = buffers_.data();
    const absl::Span<uint8_t> ring_memory(buffers_.data() + lookup_bytes,
                                          static_cast<size_t>(ring_bytes));

    LOWMEM_RETURN_IF_ERROR(LoadResident(ResidentRanges(checkpoint_, plan),
                                        ring_memory, plan.resident_bytes,
                                        progress));
    LOWMEM_RETURN_IF_ERROR(CheckUnchanged());

    ring_.emplace(StreamedRanges(checkpoint_, plan), shape_,
                  StreamRing::Order::kCyclic, *queue_, ring_memory);
    ring_->SetCancel(cancel_);
    ring_->ReadAhead();
    return absl::OkStatus();
  }

  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    LOWMEM_ASSIGN_OR_RETURN(const RowBand band, rows_.Find(tensor, row_begin));
    if (row_begin < band.resident_end) {
      return WeightLease(this, kResidentLease,
                         block_.data() + block_ofs_of_band_[band.band_idx] +
                             (row_begin - band.row_begin) *
                                 checkpoint_.tensors()[tensor].row_bytes(),
                         row_begin,
                         std::min(max_rows, band.resident_end - row_begin));
    }
    if (check_is_due_) LOWMEM_RETURN_IF_ERROR(CheckUnchanged());
    check_is_due_ = false;
    const bool is_streamed =
        band.range_idx &&
        (max_rows > 1 || ring_->IsNext(*band.range_idx, row_begin));
    return is_streamed ? AcquireStreamed(*band.range_idx, row_begin, max_rows)
                       : LookUp(tensor, row_begin);
  }

  // Reading is ahead already; this is when to look whether the files are the
  // same, and when to see that a pass leaves out a step, such as the head.
  void Prefetch(const WeightStep& step) override {
    check_is_due_ = true;
    const std::optional<PlannedRows::LeftOut> left_out = rows_.Announce(step);
    if (left_out) ring_->LeaveOut(left_out->from_idx, left_out->to_idx);
  }
  void SetCancel(const std::atomic<bool>* cancel) override {
    cancel_ = cancel;
    ring_->SetCancel(cancel);
  }

  uint64_t resident_weight_bytes() const override {
    return resident_weight_bytes_;
  }
  std::string io_description() const override {
    return absl::StrCat(queue_->description(), ", ", shape_.num_buffers, " x ",
                        FormatBytes(shape_.buffer_bytes));
  }
  std::optional<double> measured_bytes_per_s() const override {
    return queue_->measured_bytes_per_s();
  }
  uint64_t streamed_bytes() const override {
    return ring_->started_bytes() + looked_up_bytes_;
  }

 private:
  enum LeaseKind : uint64_t { kResidentLease, kStreamedLease, kLookupLease };

  void Release(uint64_t token) override {
    if (token == kStreamedLease) {
      is_streamed_leased_ = false;
      ring_->GiveBack();
    } else if (token == kLookupLease) {
      is_lookup_leased_ = false;
    }
  }

  absl::Status LoadResident(std::vector<StreamRange> ranges,
                            absl::Span<uint8_t> ring_memory,
                            uint64_t total_bytes, ProgressRef progress) {
    AdviseHugePages(block_.data(), block_.size_bytes());
    StreamRing ring(std::move(ranges), shape_, StreamRing::Order::kOnce,
                    *queue_, ring_memory);
    ring.SetCancel(cancel_);
    block_ofs_of_band_.resize(rows_.num_bands());
    uint64_t block_ofs = 0;
    for (size_t i = 0; i < ring.ranges().size(); ++i) {
      const StreamRange& range = ring.ranges()[i];
      LOWMEM_ASSIGN_OR_RETURN(const RowBand band,
                              rows_.Find(range.tensor, range.row_begin));
      block_ofs_of_band_[band.band_idx] = block_ofs;
      uint8_t* to = block_.data() + block_ofs;
      for (uint64_t row = range.row_begin; row < range.row_end;) {
        LOWMEM_ASSIGN_OR_RETURN(const StreamedRows rows,
                                ring.Take(i, row, range.row_end - row));
        const uint64_t num_bytes = rows.num_rows * range.row_bytes;
        std::memcpy(to, rows.data, num_bytes);
        ring.GiveBack();
        to += num_bytes;
        row += rows.num_rows;
        resident_weight_bytes_ += num_bytes;
        LOWMEM_RETURN_IF_ERROR(progress(resident_weight_bytes_, total_bytes));
      }
      block_ofs +=
          CheckedRoundUp((range.row_end - range.row_begin) * range.row_bytes,
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
    if (is_lookup_in_flight_) {
      LOWMEM_RETURN_IF_ERROR(WaitUnlessCancelled(*queue_, slot, cancel_));
      // A failure to read what nobody wants any longer is none.
      static_cast<void>(queue_->Wait(slot));
    }
    is_lookup_in_flight_ = true;
    queue_->Start(slot, {.file_idx = range.file_idx,
                         .file_ofs = range.base_ofs,
                         .num_bytes = range.num_bytes,
                         .to = lookup_row_});
    queue_->Submit();
    looked_up_bytes_ +=
        CheckedRoundUp(range.num_bytes, kBlockBytes).value_or(range.num_bytes);
    LOWMEM_RETURN_IF_ERROR(WaitUnlessCancelled(*queue_, slot, cancel_));
    is_lookup_in_flight_ = false;
    LOWMEM_RETURN_IF_ERROR(queue_->Wait(slot));
    is_lookup_leased_ = true;
    return WeightLease(this, kLookupLease, lookup_row_ + range.skip_bytes, row,
                       1);
  }

  const Checkpoint& checkpoint_;
  PlannedRows rows_;
  const StreamRingShape shape_;
  const std::atomic<bool>* cancel_;
  AlignedBuffer block_;  // resident rows
  std::vector<uint64_t> block_ofs_of_band_;
  AlignedBuffer buffers_;  // the row that is looked up, then the ring
  uint8_t* lookup_row_ = nullptr;
  uint64_t resident_weight_bytes_ = 0;
  uint64_t looked_up_bytes_ = 0;
  bool check_is_due_ = true;
  bool is_streamed_leased_ = false;
  bool is_lookup_leased_ = false;
  bool is_lookup_in_flight_ = false;  // also of a lookup that was cancelled
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

bool MayTryBuffered(const ResidencyPlan& plan) {
  return plan.block_bytes + plan.ring_bytes >= kMinBytesForCached;
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
                              .leave_no_cache = options.leave_no_cache,
                              .may_try_buffered = MayTryBuffered(plan)},
                             probe);
      },
      checkpoint, plan, options.ring, account, progress, options.cancel);
}

absl::StatusOr<std::unique_ptr<StreamSource>> NewStreamSourceOver(
    ReadQueueFactory new_queue, const Checkpoint& checkpoint,
    const ResidencyPlan& plan, const StreamRingShape& ring,
    MemoryAccount& account, ProgressRef progress,
    const std::atomic<bool>* cancel) {
  LOWMEM_ASSIGN_OR_RETURN(PlannedRows rows,
                          PlannedRows::Create(checkpoint, plan));
  auto source = std::make_unique<RingStreamSource>(checkpoint, std::move(rows),
                                                   ring, cancel);
  LOWMEM_RETURN_IF_ERROR(source->Open(new_queue, plan, account, progress));
  return source;
}

}  // namespace lowmem
