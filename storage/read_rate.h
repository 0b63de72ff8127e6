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

namespace lowmem {

struct ReadRate {
  double bytes_per_s = 0;
  // For people: "io_uring, direct".
  std::string method;
};

// Reads the largest file from its beginning as a stream under a budget does,
// until one of the limits: kAuto tries the methods, which takes some 100 MB.
// Leaves no page cache behind; memory: 4 MiB, charged to `account`. Buffered
// reads of a file that is cached give the rate of the cache.
// REQUIRES: max_bytes and max_seconds are positive.
// Errors: kUnimplemented when the method does not work here; kUnavailable;
// kDataLoss when all files are empty; kResourceExhausted.
absl::StatusOr<ReadRate> MeasureReadRate(const Checkpoint& checkpoint,
                                         IoMethod method, uint64_t max_bytes,
                                         double max_seconds,
                                         MemoryAccount& account);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_READ_RATE_H_
