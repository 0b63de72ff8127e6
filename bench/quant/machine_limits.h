// SPDX-License-Identifier: Apache-2.0
// The two limits that kernels are held against, measured in the run that
// measures them: how fast memory can be read at all, and how many
// multiply-adds the processor does. Machines drift and share their memory bus,
// so a figure without its limit beside it says little.

#ifndef LOWMEM_BENCH_QUANT_MACHINE_LIMITS_H_
#define LOWMEM_BENCH_QUANT_MACHINE_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "benchmark/benchmark.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {

// Reads are counted in whole pieces of this size.
inline constexpr size_t kReadPieceBytes = size_t{64} << 10;

// Reads whole pieces of [data, data + size_bytes) once, with vectors as wide as
// the machine has, on all threads of the pool, which take their ranges as those
// of a kernel do. Each thread reads its range as `num_streams` streams in turn:
// what keeps most requests in flight differs between machines.
// REQUIRES: num_streams is one of kStreamCounts.
inline constexpr size_t kStreamCounts[] = {1, 2, 4, 8};
void ReadOnce(const uint8_t* data, size_t size_bytes, size_t num_streams,
              ThreadPool& pool);

// Bytes/s of the fastest of these ways, each the median of a few passes.
double PlainReadBytesPerSecond(const uint8_t* data, size_t size_bytes,
                               ThreadPool& pool);

// A few hundred microseconds of independent float32 multiply-adds in registers,
// in the widest vectors, on all threads. Returns how many operations that is:
// two for each multiply-add.
double MultiplyAddOnce(ThreadPool& pool);

// Operations/s of that, the median of a few passes.
double MultiplyAddFlopsPerSecond(ThreadPool& pool);

// Starts before the loop of a benchmark, which tells nobody its time.
class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Counters: which share of a limit that was, the limit measured now, on the
// same threads.
//   of_read  of a plain read of the same bytes
//   of_peak  of multiply-adds in registers
void CountOfRead(benchmark::State& state, double bytes_per_s,
                 const uint8_t* data, size_t size_bytes, ThreadPool& pool);
void CountOfPeak(benchmark::State& state, double flops_per_s, ThreadPool& pool);

}  // namespace lowmem::bench

#endif  // LOWMEM_BENCH_QUANT_MACHINE_LIMITS_H_
