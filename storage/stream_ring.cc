// SPDX-License-Identifier: Apache-2.0
#include "storage/stream_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/status_macros.h"
#include "storage/block_file.h"

namespace lowmem {
namespace {

// What is computed with is not being filled: a taker gets at most this part of
// the ring at once.
constexpr uint64_t kTakenPart = 4;
// Reads are started together: handing over one costs 14 microseconds where the
// disk is a virtual one, four together cost 20, and the disk still has the
// rest.
constexpr uint64_t kBatchPart = 4;

uint64_t RoundUp(uint64_t num_bytes, uint64_t multiple) {
  return (num_bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

uint64_t StreamRingShape::TotalBytes(uint64_t max_row_bytes) const {
  return RoundUp(max_row_bytes, BlockFile::kBlockBytes) +
         num_buffers * buffer_bytes;
}

StreamRing::StreamRing(std::vector<StreamRange> ranges,
                       const StreamRingShape& shape, Order order,
                       ReadQueue& queue, absl::Span<uint8_t> memory)
    : ranges_(std::move(ranges)),
      buffer_bytes_(shape.buffer_bytes),
      order_(order),
      queue_(queue),
      front_room_end_(memory.data() + memory.size() -
                      shape.num_buffers * shape.buffer_bytes),
      buffers_(shape.num_buffers) {}

StreamRing::~StreamRing() { DropAll(); }

uint64_t StreamRing::NumPieces(size_t range_idx) const {
  return (ranges_[range_idx].num_bytes + buffer_bytes_ - 1) / buffer_bytes_;
}

uint8_t* StreamRing::BufferStart(uint64_t buffer_idx) {
  return front_room_end_ + buffer_idx * buffer_bytes_;
}

bool StreamRing::IsFilledWith(uint64_t nth, size_t range_idx,
                              uint64_t piece_idx) const {
  if (nth >= num_filled_) return false;
  const Buffer& buffer = buffers_[(first_ + nth) % buffers_.size()];
  return buffer.range_idx == range_idx && buffer.piece_idx == piece_idx;
}

bool StreamRing::IsReadNext(size_t range_idx) const {
  return (num_filled_ > 0 ? buffers_[first_].range_idx : read_range_idx_) ==
         range_idx;
}

void StreamRing::ReadAhead() {
  while (num_filled_ < buffers_.size() && read_range_idx_ < ranges_.size()) {
    const uint64_t buffer_idx = (first_ + num_filled_) % buffers_.size();
    const StreamRange& range = ranges_[read_range_idx_];
    const uint64_t ofs = read_piece_idx_ * buffer_bytes_;
    const uint64_t num_bytes = std::min(buffer_bytes_, range.num_bytes - ofs);
    buffers_[buffer_idx] = {read_range_idx_, read_piece_idx_, false};
    queue_.Start(static_cast<uint32_t>(buffer_idx),
                 {.file_idx = range.file_idx,
                  .file_ofs = range.base_ofs + ofs,
                  .num_bytes = num_bytes,
                  .to = BufferStart(buffer_idx)});
    started_bytes_ += RoundUp(num_bytes, BlockFile::kBlockBytes);
    ++num_filled_;
    if (++read_piece_idx_ < NumPieces(read_range_idx_)) continue;
    read_piece_idx_ = 0;
    ++read_range_idx_;
    if (order_ == Order::kCyclic) read_range_idx_ %= ranges_.size();
    SkipWhatIsLeftOut();
  }
  queue_.Submit();
}

void StreamRing::ReadAheadInBatches() {
  if ((buffers_.size() - num_filled_) * kBatchPart >= buffers_.size()) {
    ReadAhead();
  }
}

void StreamRing::LeaveOut(size_t from_idx, size_t to_idx) {
  left_out_from_idx_ = from_idx;
  left_out_to_idx_ = to_idx;
  SkipWhatIsLeftOut();
}

void StreamRing::SkipWhatIsLeftOut() {
  if (read_range_idx_ != left_out_from_idx_ || read_piece_idx_ != 0) return;
  read_range_idx_ = left_out_to_idx_;
  left_out_from_idx_ = left_out_to_idx_;
}

bool StreamRing::HasArrived(uint64_t buffer_idx) {
  return buffers_[buffer_idx].has_arrived ||
         queue_.IsDone(static_cast<uint32_t>(buffer_idx));
}

absl::Status StreamRing::Await(uint64_t buffer_idx) {
  Buffer& buffer = buffers_[buffer_idx];
  if (buffer.has_arrived) return absl::OkStatus();
  // Over in either case: after a failure all buffers are dropped, and this one
  // must not be waited for again.
  buffer.has_arrived = true;
  return queue_.Wait(static_cast<uint32_t>(buffer_idx));
}

absl::Status StreamRing::AwaitOrCancelled(uint64_t buffer_idx) {
  if (buffers_[buffer_idx].has_arrived) return absl::OkStatus();
  LOWMEM_RETURN_IF_ERROR(
      WaitUnlessCancelled(queue_, static_cast<uint32_t>(buffer_idx), cancel_));
  return Await(buffer_idx);
}

void StreamRing::DropFront() {
  // A failure to read what nobody wants is none.
  static_cast<void>(Await(first_));
  first_ = (first_ + 1) % buffers_.size();
  --num_filled_;
}

void StreamRing::DropAll() {
  while (num_filled_ > 0) DropFront();
}

absl::Status StreamRing::Aim(size_t range_idx, uint64_t row) {
  const uint64_t piece_idx =
      ranges_[range_idx].RowPosition(row) / buffer_bytes_;
  uint64_t num_before = 0;
  while (num_before < num_filled_ &&
         !IsFilledWith(num_before, range_idx, piece_idx)) {
    ++num_before;
  }
  for (uint64_t i = 0; i < num_before; ++i) {
    const absl::Status status =
        AwaitOrCancelled((first_ + i) % buffers_.size());
    if (absl::IsCancelled(status)) return status;
  }
  if (num_before == num_filled_) {
    DropAll();
    read_range_idx_ = range_idx;
    read_piece_idx_ = piece_idx;
  }
  for (uint64_t i = 0; i < num_before && num_filled_ > 0; ++i) DropFront();
  has_next_ = true;
  next_range_idx_ = range_idx;
  next_row_ = row;
  return absl::OkStatus();
}

// Copies the beginning of the next row, which is `ofs` behind the start of the
// first filled buffer and goes on in buffer 0, to before buffer 0.
absl::Status StreamRing::CarryOverBorder(int64_t ofs) {
  const uint64_t num_buffers = buffers_.size() - first_;
  if (num_filled_ < num_buffers) ReadAhead();
  for (uint64_t i = 0; i < num_buffers; ++i) {
    LOWMEM_RETURN_IF_ERROR(AwaitOrCancelled(first_ + i));
  }
  const size_t num_bytes =
      static_cast<size_t>(num_buffers * buffer_bytes_ - ofs);
  std::memcpy(front_room_end_ - num_bytes, BufferStart(first_) + ofs,
              num_bytes);
  for (uint64_t i = 0; i < num_buffers; ++i) DropFront();
  ReadAhead();
  return absl::OkStatus();
}

absl::StatusOr<StreamedRows> StreamRing::TakeNext(uint64_t max_rows) {
  const StreamRange& range = ranges_[next_range_idx_];
  const int64_t position = static_cast<int64_t>(range.RowPosition(next_row_));
  const auto ofs_in_buffers = [&] {
    return position -
           static_cast<int64_t>(buffers_[first_].piece_idx * buffer_bytes_);
  };
  const auto buffers_for_a_row = [&] {
    const uint64_t row_end = static_cast<uint64_t>(
        ofs_in_buffers() + static_cast<int64_t>(range.row_bytes));
    return (row_end + buffer_bytes_ - 1) / buffer_bytes_;
  };
  if (first_ + buffers_for_a_row() > buffers_.size()) {
    LOWMEM_RETURN_IF_ERROR(CarryOverBorder(ofs_in_buffers()));
  }
  uint64_t num_buffers = buffers_for_a_row();
  if (num_filled_ < num_buffers) ReadAhead();
  bool has_waited = false;
  for (uint64_t i = 0; i < num_buffers; ++i) {
    has_waited |= !HasArrived(first_ + i);
    LOWMEM_RETURN_IF_ERROR(AwaitOrCancelled(first_ + i));
  }
  const uint64_t first_piece_idx = buffers_[first_].piece_idx;
  // Some disks report reads only once all are over, and have nothing to do then
  // before the first buffer is given back: that must come soon.
  while (!has_waited && num_buffers < buffers_.size() / kTakenPart &&
         first_ + num_buffers < buffers_.size() &&
         IsFilledWith(num_buffers, next_range_idx_,
                      first_piece_idx + num_buffers) &&
         HasArrived(first_ + num_buffers)) {
    LOWMEM_RETURN_IF_ERROR(Await(first_ + num_buffers));
    ++num_buffers;
  }
  const int64_t ofs = ofs_in_buffers();
  const int64_t arrived_bytes =
      static_cast<int64_t>(
          std::min(num_buffers * buffer_bytes_,
                   range.num_bytes - first_piece_idx * buffer_bytes_)) -
      ofs;
  StreamedRows rows;
  rows.data = BufferStart(first_) + ofs;
  rows.num_rows =
      std::min({max_rows, range.row_end - next_row_,
                static_cast<uint64_t>(arrived_bytes) / range.row_bytes});
  next_row_ += rows.num_rows;
  return rows;
}

absl::StatusOr<StreamedRows> StreamRing::Take(size_t range_idx, uint64_t row,
                                              uint64_t max_rows) {
  if (!IsNext(range_idx, row) || !IsReadNext(range_idx)) {
    LOWMEM_RETURN_IF_ERROR(Aim(range_idx, row));
  }
  num_filled_ == 0 ? ReadAhead() : ReadAheadInBatches();
  absl::StatusOr<StreamedRows> rows = TakeNext(max_rows);
  if (!rows.ok() && !absl::IsCancelled(rows.status())) {
    DropAll();
    has_next_ = false;
    read_range_idx_ = range_idx;
    read_piece_idx_ = ranges_[range_idx].RowPosition(row) / buffer_bytes_;
  }
  return rows;
}

void StreamRing::GiveBack() {
  const StreamRange& range = ranges_[next_range_idx_];
  const bool is_range_over = next_row_ == range.row_end;
  // Pieces before this one are used up.
  const uint64_t piece_idx = is_range_over
                                 ? NumPieces(next_range_idx_)
                                 : range.RowPosition(next_row_) / buffer_bytes_;
  for (uint64_t i = buffers_[first_].piece_idx; i < piece_idx; ++i) DropFront();
  if (is_range_over) {
    next_range_idx_ = (next_range_idx_ + 1) % ranges_.size();
    next_row_ = ranges_[next_range_idx_].row_begin;
  }
  ReadAheadInBatches();
}

}  // namespace lowmem
