// SPDX-License-Identifier: Apache-2.0
// What stands in for io_uring_read_queue.cc in a build without liburing.

#include "storage/read_queue.h"

namespace lowmem {

absl::StatusOr<std::unique_ptr<ReadQueue>> NewUringReadQueue(
    std::vector<StreamedFile>, uint32_t) {
  return absl::UnimplementedError("io_uring: this build is without liburing");
}

}  // namespace lowmem
