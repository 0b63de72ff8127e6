// SPDX-License-Identifier: Apache-2.0
// Reads of a checkpoint's files that run while the caller computes: started,
// asked about, waited for. Which of the system's ways is taken is hidden here.

#ifndef LOWMEM_STORAGE_READ_QUEUE_H_
#define LOWMEM_STORAGE_READ_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/block_file.h"
#include "storage/checkpoint.h"

namespace lowmem {

enum class IoMethod {
  kAuto,         // the one of these that is the fastest here
  kUring,        // io_uring, past the page cache
  kDirectPread,  // threads, past the page cache
  kBuffered,     // threads, through the page cache
};

struct BlockRead {
  uint32_t file_idx = 0;   // in Checkpoint::files()
  uint64_t file_ofs = 0;   // a multiple of BlockFile::kBlockBytes
  uint64_t num_bytes = 0;  // that must arrive; more may, to the next block
  uint8_t* to = nullptr;   // aligned; room for num_bytes in whole blocks
};

// Short reads, EINTR and EAGAIN are dealt with below this interface.
// Thread safety: one thread at a time.
// Lifetime: files and memory outlive the queue; destroying it waits for what is
// in flight.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  // Starts a read under the number `slot`, with the next Submit at the latest.
  // Never waits for the disk.
  // REQUIRES: slot is below the number given at creation, and nothing was
  // started under it since its last Wait.
  virtual void Start(uint32_t slot, const BlockRead& read) = 0;
  // To be called behind each group of Start: several reads may cost one system
  // call.
  virtual void Submit() = 0;
  // Whether Wait would return at once. REQUIRES: a read was started.
  virtual bool IsDone(uint32_t slot) = 0;
  // Waits for at most about `timeout_ms`. Whether Wait would return at once, or
  // no sooner than without asking.
  virtual bool WaitAtMost(uint32_t slot, int timeout_ms) = 0;
  // Returns once the read is over; it is then forgotten.
  // Errors: kUnavailable when it failed or the file became shorter.
  virtual absl::Status Wait(uint32_t slot) = 0;

  // For people: "io_uring, direct".
  virtual std::string description() const = 0;
  // While the disk was what the caller waited for; nullopt when not measured.
  virtual std::optional<double> measured_bytes_per_s() const {
    return std::nullopt;
  }
};

// Waits until Wait would return at once; `cancel` may be nullptr.
// Errors: kCancelled once *cancel is true; the read goes on.
absl::Status WaitUnlessCancelled(ReadQueue& queue, uint32_t slot,
                                 const std::atomic<bool>* cancel);

// One file with the descriptor that is read.
struct StreamedFile {
  const RandomAccessFile* file = nullptr;
  std::unique_ptr<BlockFile> blocks;
};

// Reads what `done_bytes` have not brought yet, waiting for it.
absl::Status FinishRead(const StreamedFile& file, const BlockRead& read,
                        uint64_t done_bytes);

// Each of the files for streaming. Buffered reads of a file that cannot be
// opened again go through the file itself. Errors: kUnimplemented for direct
// reads where there are none; kUnavailable.
absl::StatusOr<std::vector<StreamedFile>> OpenStreamedFiles(
    const Checkpoint& checkpoint, BlockCaching caching);

// Reads by `num_threads` threads, in the order in which they are started.
// `leave_no_cache` drops what was read from the page cache.
// Errors: kResourceExhausted when the system refuses a thread.
absl::StatusOr<std::unique_ptr<ReadQueue>> NewThreadReadQueue(
    std::vector<StreamedFile> files, uint32_t num_slots, uint32_t num_threads,
    BlockCaching caching, bool leave_no_cache);

// Reads by the kernel. Errors: kUnimplemented where io_uring is absent,
// forbidden or too old, and in builds without liburing.
absl::StatusOr<std::unique_ptr<ReadQueue>> NewUringReadQueue(
    std::vector<StreamedFile> files, uint32_t num_slots);

struct ReadQueueOptions {
  IoMethod method = IoMethod::kAuto;
  uint32_t num_slots = 0;
  // The page cache holds none of what was read. Without it kAuto reads through
  // the cache, which is then the kernel's business.
  bool leave_no_cache = true;
  // Whether kAuto may find reads through the cache to be the fastest. Not where
  // memory is short: pages are dropped behind, but those in use count, and a
  // group of 24 MiB read 1.8 times what it used, one of 12 MiB 4.4 times.
  bool may_try_buffered = true;
};

// Tries the methods, each with a read of the first block of every file into
// `probe`. kAuto then has them read in turn and stays with the fastest
// (MethodTrial); the others read by one and measure.
// REQUIRES: probe is aligned and holds a block.
// Errors: kUnimplemented when the one that was asked for does not work here;
// kUnavailable; kResourceExhausted.
absl::StatusOr<std::unique_ptr<ReadQueue>> OpenReadQueue(
    const Checkpoint& checkpoint, const ReadQueueOptions& options,
    absl::Span<uint8_t> probe);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_READ_QUEUE_H_
