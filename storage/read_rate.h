// SPDX-License-Identifier: Apache-2.0
// How fast a checkpoint's disk is, for a forecast before anything is loaded.

#ifndef LOWMEM_STORAGE_READ_RATE_H_
#define LOWMEM_STORAGE_READ_RATE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/base/memory_account.h"
#include "storage/checkpoint.h"
#include "storage/read_queue.h"
#include "storage/stream_ring.h"

namespace lowmem {

// How a stream will read, and when to stop.
struct ReadRateOptions {
  IoMethod method = IoMethod::kAuto;
  bool may_try_buffered = true;  // of ReadQueueOptions
  StreamRingShape ring;
  uint64_t max_bytes = 256 << 20;
  double max_seconds = 1;
};

struct ReadRate {
  double bytes_per_s = 0;
  // For people: "io_uring, direct".
  std::string method;
};

// Reads the largest file from its beginning as a stream through the ring does
// under a budget, until one of the limits: kAuto tries the methods, which takes
// some 100 MB. Leaves no page cache behind; memory: the ring's buffers, charged
// to `account`. Buffered reads of a file that is cached give the rate of the
// cache. REQUIRES: max_bytes and max_seconds are positive. Errors:
// kUnimplemented when the method does not work here; kUnavailable; kDataLoss
// when all files are empty; kResourceExhausted.
absl::StatusOr<ReadRate> MeasureReadRate(const Checkpoint& checkpoint,
                                         const ReadRateOptions& options,
                                         MemoryAccount& account);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_READ_RATE_H_
