// SPDX-License-Identifier: Apache-2.0
// A ReadQueue over several: each reads a stretch of what is wanted anyway, then
// the one that MethodTrial prefers reads all. Nothing is read for the
// measurement alone, and nothing twice.

#ifndef LOWMEM_STORAGE_ADAPTIVE_READ_QUEUE_H_
#define LOWMEM_STORAGE_ADAPTIVE_READ_QUEUE_H_

#include <functional>
#include <memory>
#include <vector>

#include "storage/read_queue.h"

namespace lowmem {

// A stretch ends with the first of these.
inline constexpr uint64_t kStretchBytes = uint64_t{16} << 20;
inline constexpr double kStretchSeconds = 0.25;

// Queues by preference, each for `num_slots`. With one, it is measured and
// stays. `now_s` tells seconds from any beginning, and never goes back.
// REQUIRES: at least one queue.
std::unique_ptr<ReadQueue> NewAdaptiveReadQueue(
    std::vector<std::unique_ptr<ReadQueue>> queues, uint32_t num_slots,
    std::function<double()> now_s);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_ADAPTIVE_READ_QUEUE_H_
