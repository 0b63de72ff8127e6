// SPDX-License-Identifier: Apache-2.0
#include "bench/quant/machine_limits.h"

#include <algorithm>
#include <vector>

#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/quant/machine_limits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem::bench {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ByteTag = hn::ScalableTag<uint8_t>;
using FloatTag = hn::ScalableTag<float>;

// A cache line of each stream before the next line of any. Loads alone: sums
// would take longer than memory where it is fast.
template <size_t kStreams>
void ReadStreams(const uint8_t* data, size_t stream_bytes) {
  constexpr size_t kLineBytes = 64;
  const ByteTag d;
  auto seen = hn::Zero(d);
  for (size_t ofs = 0; ofs < stream_bytes; ofs += kLineBytes) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
      const uint8_t* const line = data + stream * stream_bytes + ofs;
      for (size_t i = 0; i < kLineBytes; i += hn::Lanes(d)) {
        seen = hn::Or(seen, hn::LoadU(d, line + i));
      }
    }
  }
  benchmark::DoNotOptimize(seen);
}

void ReadRangeOnTarget(const uint8_t* data, size_t size_bytes,
                       size_t num_streams) {
  const size_t stream_bytes = size_bytes / num_streams;
  switch (num_streams) {
    case 1:
      return ReadStreams<1>(data, stream_bytes);
    case 2:
      return ReadStreams<2>(data, stream_bytes);
    case 4:
      return ReadStreams<4>(data, stream_bytes);
    case 8:
      return ReadStreams<8>(data, stream_bytes);
  }
}

// 12 sums: two units with a latency of 4 or 5 cycles want 8 or 10, and AVX2 has
// registers for 14 beside the two factors. Returns the number of operations.
double MultiplyAddOnTarget(size_t num_rounds) {
  constexpr size_t kSums = 12;
  const FloatTag d;
  // Values that the compiler does not know: equal sums would be computed once.
  float starts[kSums + 1] = {};
  benchmark::DoNotOptimize(starts);
  benchmark::ClobberMemory();
  const auto factor = hn::Set(d, starts[kSums]);
  const auto addend = hn::Set(d, starts[0]);
  auto s0 = hn::Set(d, starts[0]), s1 = hn::Set(d, starts[1]);
  auto s2 = hn::Set(d, starts[2]), s3 = hn::Set(d, starts[3]);
  auto s4 = hn::Set(d, starts[4]), s5 = hn::Set(d, starts[5]);
  auto s6 = hn::Set(d, starts[6]), s7 = hn::Set(d, starts[7]);
  auto s8 = hn::Set(d, starts[8]), s9 = hn::Set(d, starts[9]);
  auto s10 = hn::Set(d, starts[10]), s11 = hn::Set(d, starts[11]);
  for (size_t i = 0; i < num_rounds; ++i) {
    s0 = hn::MulAdd(s0, factor, addend);
    s1 = hn::MulAdd(s1, factor, addend);
    s2 = hn::MulAdd(s2, factor, addend);
    s3 = hn::MulAdd(s3, factor, addend);
    s4 = hn::MulAdd(s4, factor, addend);
    s5 = hn::MulAdd(s5, factor, addend);
    s6 = hn::MulAdd(s6, factor, addend);
    s7 = hn::MulAdd(s7, factor, addend);
    s8 = hn::MulAdd(s8, factor, addend);
    s9 = hn::MulAdd(s9, factor, addend);
    s10 = hn::MulAdd(s10, factor, addend);
    s11 = hn::MulAdd(s11, factor, addend);
  }
  auto sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)),
                     hn::Add(hn::Add(hn::Add(s4, s5), hn::Add(s6, s7)),
                             hn::Add(hn::Add(s8, s9), hn::Add(s10, s11))));
  benchmark::DoNotOptimize(sum);
  return 2.0 * static_cast<double>(kSums * hn::Lanes(d) * num_rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace lowmem::bench
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem::bench {
namespace {

HWY_EXPORT(ReadRangeOnTarget);
HWY_EXPORT(MultiplyAddOnTarget);

constexpr size_t kMultiplyAddRounds = 4096;
constexpr size_t kMultiplyAddPiecesPerThread = 16;
constexpr size_t kMinPasses = 5;
constexpr double kMinSeconds = 0.01;

// Units/s of `pass`, which does `units` of something: the median of a few
// passes.
template <typename Pass>
double MedianRate(double units, Pass pass) {
  std::vector<double> seconds;
  const Stopwatch all;
  while (seconds.size() < kMinPasses || all.Seconds() < kMinSeconds) {
    const Stopwatch watch;
    pass();
    seconds.push_back(watch.Seconds());
  }
  const auto middle = seconds.begin() + seconds.size() / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return units / *middle;
}

}  // namespace

void ReadOnce(const uint8_t* data, size_t size_bytes, size_t num_streams,
              ThreadPool& pool) {
  pool.ParallelFor(size_bytes / kReadPieceBytes, 1,
                   [&](size_t begin, size_t end, size_t) {
                     HWY_DYNAMIC_DISPATCH(ReadRangeOnTarget)
                     (data + begin * kReadPieceBytes,
                      (end - begin) * kReadPieceBytes, num_streams);
                   });
}

double PlainReadBytesPerSecond(const uint8_t* data, size_t size_bytes,
                               ThreadPool& pool) {
  const size_t read_bytes = size_bytes / kReadPieceBytes * kReadPieceBytes;
  double fastest = 0;
  for (const size_t num_streams : kStreamCounts) {
    fastest =
        std::max(fastest, MedianRate(static_cast<double>(read_bytes), [&] {
                   ReadOnce(data, size_bytes, num_streams, pool);
                 }));
  }
  return fastest;
}

double MultiplyAddOnce(ThreadPool& pool) {
  const size_t num_pieces = pool.num_threads() * kMultiplyAddPiecesPerThread;
  std::vector<double> flops(num_pieces);
  pool.ParallelFor(num_pieces, 1, [&](size_t begin, size_t end, size_t) {
    for (size_t i = begin; i < end; ++i) {
      flops[i] = HWY_DYNAMIC_DISPATCH(MultiplyAddOnTarget)(kMultiplyAddRounds);
    }
  });
  return flops.front() * static_cast<double>(num_pieces);
}

double MultiplyAddFlopsPerSecond(ThreadPool& pool) {
  return MedianRate(MultiplyAddOnce(pool), [&] { MultiplyAddOnce(pool); });
}

void CountOfRead(benchmark::State& state, double bytes_per_s,
                 const uint8_t* data, size_t size_bytes, ThreadPool& pool) {
  state.counters["of_read"] =
      bytes_per_s / PlainReadBytesPerSecond(data, size_bytes, pool);
}

void CountOfPeak(benchmark::State& state, double flops_per_s,
                 ThreadPool& pool) {
  state.counters["of_peak"] = flops_per_s / MultiplyAddFlopsPerSecond(pool);
}

}  // namespace lowmem::bench
#endif  // HWY_ONCE
