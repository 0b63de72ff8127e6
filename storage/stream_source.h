// SPDX-License-Identifier: Apache-2.0
// WeightSource for models larger than the memory they may use: the rows that a
// ResidencyPlan keeps are in heap, all others flow through a ring of buffers,
// read ahead of use across the borders of layers, head and tokens.

#ifndef LOWMEM_STORAGE_STREAM_SOURCE_H_
#define LOWMEM_STORAGE_STREAM_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/base/memory_account.h"
#include "storage/checkpoint.h"
#include "storage/read_queue.h"
#include "storage/residency_plan.h"
#include "storage/stream_ring.h"
#include "storage/weight_source.h"

namespace lowmem {

struct StreamSourceOptions {
  // More buffers: more requests at the disk, and a longer stretch of computing
  // on resident rows that reading can go on behind. Costs their size.
  StreamRingShape ring;
  IoMethod io_method = IoMethod::kAuto;
  // Whether the page cache must stay free of what is read, as under a budget.
  bool leave_no_cache = true;
  // Ends loading with kCancelled, and is what SetCancel begins with.
  const std::atomic<bool>* cancel = nullptr;
};

// What a source takes besides resident rows: ResidencyRequest::ring_bytes.
uint64_t StreamBufferBytes(const StreamRingShape& ring, uint64_t max_row_bytes);

// Whether reads through the page cache may be tried: ReadQueueOptions.
bool MayTryBuffered(const ResidencyPlan& plan);

// Leases: any number of resident rows, but of streamed rows one at a time, and
// of a row that is looked up one at a time. Any order of use is right; that of
// the plan is fast. A single row that is not the next one counts as looked up,
// and leaves what was read ahead where it is.
class StreamSource : public WeightSource {
 public:
  // How files are read, for people: "io_uring, direct, 16 x 256 KiB".
  // Under IoMethod::kAuto it may change during the first pass.
  virtual std::string io_description() const = 0;
  // Of the disk by that method, measured while it was what was waited for;
  // nullopt before that, and where it never was.
  virtual std::optional<double> measured_bytes_per_s() const = 0;
  // Asked of the files since the source was made, whole blocks, what was read
  // ahead included and resident rows left out.
  virtual uint64_t streamed_bytes() const = 0;
};

// Reads the resident rows through the ring, in file order, then begins to read
// ahead. `progress` is called now and then with the bytes loaded so far and in
// all; when it returns a status other than OK, loading ends with it. Memory:
// plan.block_bytes and StreamBufferBytes, charged to `account`; some 100 bytes
// a tensor that are not. Errors: kResourceExhausted when `account` refuses;
// kInvalidArgument when a buffer is no whole number of blocks, the ring is too
// small for the largest row, or the plan is of another checkpoint;
// kUnimplemented when the I/O method that was asked for does not work here;
// kUnavailable.
absl::StatusOr<std::unique_ptr<StreamSource>> NewStreamSource(
    const Checkpoint& checkpoint, const ResidencyPlan& plan,
    const StreamSourceOptions& options, MemoryAccount& account,
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>
        progress);

// Makes the queue that a source reads through, for `num_slots` reads at once
// and with a block to try direct reads with.
using ReadQueueFactory =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<ReadQueue>>(
        uint32_t num_slots, absl::Span<uint8_t> probe)>;

// The same over any queue: a test puts a failing one in its place.
absl::StatusOr<std::unique_ptr<StreamSource>> NewStreamSourceOver(
    ReadQueueFactory new_queue, const Checkpoint& checkpoint,
    const ResidencyPlan& plan, const StreamRingShape& ring,
    MemoryAccount& account,
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>
        progress,
    const std::atomic<bool>* cancel = nullptr);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_STREAM_SOURCE_H_
