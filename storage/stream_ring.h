// SPDX-License-Identifier: Apache-2.0
// A fixed number of buffers through which ranges of files flow in a known
// order: buffers that are used up are given the next pieces to read, a quarter
// of the ring at once, while the disk has the requests of the others.
//
// The buffers lie one behind the other. Pieces of a range follow one another in
// them as in the file, so a row that two pieces share needs no copy, but at the
// border from the last buffer to the first: there its beginning is copied to
// the room in front of the first.

#ifndef LOWMEM_STORAGE_STREAM_RING_H_
#define LOWMEM_STORAGE_STREAM_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/read_queue.h"
#include "storage/stream_order.h"

namespace lowmem {

struct StreamRingShape {
  // stream_source_bench, io_uring, a disk of 1.3 GB/s: 16 buffers 1.34 GB/s, 32
  // buffers 1.36 for twice the memory.
  uint32_t num_buffers = 16;
  uint64_t buffer_bytes = 256 << 10;  // a multiple of BlockFile::kBlockBytes

  // For rows of at most `max_row_bytes`, the room in front included.
  uint64_t TotalBytes(uint64_t max_row_bytes) const;
};

// Rows that have arrived.
struct StreamedRows {
  const uint8_t* data = nullptr;
  uint64_t num_rows = 0;
};

// Thread safety: one thread at a time.
// Lifetime: queue and memory outlive the ring, whose destructor waits for what
// is in flight. Slots [0, num_buffers) of the queue are the ring's.
class StreamRing {
 public:
  enum class Order {
    kOnce,    // the ranges are taken from first to last
    kCyclic,  // and then again
  };

  // REQUIRES: memory is aligned and has shape.TotalBytes() for the largest row;
  // a row and a buffer together are no larger than all buffers; each range has
  // rows.
  StreamRing(std::vector<StreamRange> ranges, const StreamRingShape& shape,
             Order order, ReadQueue& queue, absl::Span<uint8_t> memory);
  StreamRing(const StreamRing&) = delete;
  StreamRing& operator=(const StreamRing&) = delete;
  ~StreamRing();

  const std::vector<StreamRange>& ranges() const { return ranges_; }

  // Starts as many reads as there are free buffers. Never waits.
  void ReadAhead();

  // The next time that reading comes to range `from_idx` it goes on with
  // `to_idx`: what lies between is not used in this pass. Replaces what was
  // said before; nothing is left out when the two are equal. REQUIRES: both are
  // ranges.
  void LeaveOut(size_t from_idx, size_t to_idx);

  // As WeightSource::SetCancel, for Take.
  void SetCancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  // Whether `row` is what follows the rows taken last.
  bool IsNext(size_t range_idx, uint64_t row) const {
    return has_next_ && next_range_idx_ == range_idx && next_row_ == row;
  }

  // Rows from `row` on, at least one, at most `max_rows`, waiting for the
  // first. Out of order, what was read ahead is thrown away up to there. The
  // rows are valid until GiveBack. After an error the next call begins anew.
  // After kCancelled the same call goes on where it was.
  // REQUIRES: the rows taken before were given back; row lies in the range.
  // Errors: kUnavailable; kCancelled.
  absl::StatusOr<StreamedRows> Take(size_t range_idx, uint64_t row,
                                    uint64_t max_rows);
  // Gives back what was taken last and reads ahead.
  void GiveBack();

  // Asked of the queue so far.
  uint64_t started_bytes() const { return started_bytes_; }

 private:
  struct Buffer {
    size_t range_idx = 0;
    uint64_t piece_idx = 0;
    bool has_arrived = false;
  };

  uint64_t NumPieces(size_t range_idx) const;
  // Whether what was read first, or will be, is of this range. It is not when
  // the range was left out.
  bool IsReadNext(size_t range_idx) const;
  void ReadAheadInBatches();
  void SkipWhatIsLeftOut();
  uint8_t* BufferStart(uint64_t buffer_idx);
  bool IsFilledWith(uint64_t nth, size_t range_idx, uint64_t piece_idx) const;
  bool HasArrived(uint64_t buffer_idx);
  absl::Status Await(uint64_t buffer_idx);
  absl::Status AwaitOrCancelled(uint64_t buffer_idx);
  void DropFront();
  void DropAll();
  absl::Status Aim(size_t range_idx, uint64_t row);
  absl::Status CarryOverBorder(int64_t ofs);
  absl::StatusOr<StreamedRows> TakeNext(uint64_t max_rows);

  const std::vector<StreamRange> ranges_;
  const uint64_t buffer_bytes_;
  const Order order_;
  ReadQueue& queue_;
  const std::atomic<bool>* cancel_ = nullptr;
  uint8_t* const front_room_end_;  // start of the first buffer

  // Filled or being filled, oldest first: num_filled_ from first_ on, round and
  // round.
  std::vector<Buffer> buffers_;
  uint64_t first_ = 0;
  uint64_t num_filled_ = 0;

  // What is read next; range_idx is ranges_.size() at the end of Order::kOnce.
  size_t read_range_idx_ = 0;
  uint64_t read_piece_idx_ = 0;
  size_t left_out_from_idx_ = 0;
  size_t left_out_to_idx_ = 0;  // equal: nothing is left out
  uint64_t started_bytes_ = 0;

  // What is taken next. Its first byte is in the first filled buffer, or
  // carried to the room in front of it.
  bool has_next_ = false;
  size_t next_range_idx_ = 0;
  uint64_t next_row_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_STREAM_RING_H_
