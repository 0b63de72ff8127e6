// SPDX-License-Identifier: Apache-2.0
// How large the ring of a stream is for the memory there is: a pure function,
// so that a forecast and a running source agree.
//
// Every byte of the ring is one that no resident row has: where memory is small
// against what streams, that costs a percent or two of what is read, and more
// requests at the disk gain tens of them. Measured (stream_source_bench,
// io_uring, direct, nothing resident, a virtual disk that others used as well),
// GB/s:
//   4 x 64 KiB 1.4   4 x 128 KiB 1.8   4 x 256 KiB 2.1 to 2.4
//   8 x 256 KiB 2.4   16 x 256 KiB 2.4   32 x 256 KiB 2.3
// A disk of 5.3 GB/s wanted 16 requests (4.1, 4.6, 5.3 at 4, 8, 16), and from a
// warm page cache 8 x 1 MiB gave 9.4 where 16 x 256 KiB gave 8.2.

#ifndef LOWMEM_STORAGE_RING_CHOICE_H_
#define LOWMEM_STORAGE_RING_CHOICE_H_

#include <cstdint>
#include <limits>

#include "storage/residency_plan.h"
#include "storage/stream_ring.h"

namespace lowmem {

inline constexpr uint64_t kNoBudget = std::numeric_limits<uint64_t>::max();

// The ring for `available_bytes`, in which it and the resident rows that might
// stream must fit (kNoBudget: as much as one likes), and for rows of at most
// `max_row_bytes` of `streamable_bytes` in all. The smallest ring, or one whose
// StreamBufferBytes are at most an eighth of what is available, or half of it
// while that is less than 1/48 of what might stream: more memory never gives a
// smaller one, and never leaves the resident rows nothing.
// REQUIRES: max_row_bytes < 2^40.
StreamRingShape ChooseRing(uint64_t available_bytes, uint64_t max_row_bytes,
                           uint64_t streamable_bytes);

// The same from a request: what may not stream is taken off available_bytes
// before. request.ring_bytes is not looked at.
StreamRingShape ChooseRing(const ResidencyRequest& request);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_RING_CHOICE_H_
