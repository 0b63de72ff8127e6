// SPDX-License-Identifier: Apache-2.0
// What the machine gives.
//   PlainRead/pages:<huge|single>/streams:<n>/threads:<n>  bytes/s
//   MultiplyAdd/threads:<n>                                FLOP/s
// with one thread and with all processors that this process may use.
//   --read_bytes=N  bytes that a read goes over; default 192 MiB. More than the
//                   caches hold, or as many as the model in question has.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "bench/quant/machine_limits.h"
#include "bench/quant/read_buffer.h"
#include "benchmark/benchmark.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {
namespace {

void PlainRead(benchmark::State& state, size_t size_bytes, Pages pages,
               size_t num_streams, size_t num_threads) {
  const AlignedBuffer& buffer = SharedBuffer(size_bytes, pages);
  if (buffer.size_bytes() == 0) return state.SkipWithError("no memory");
  const auto pool = *ThreadPool::Create(num_threads);
  for (auto _ : state) {
    ReadOnce(buffer.data(), size_bytes, num_streams, *pool);
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(size_bytes));
}

void MultiplyAdd(benchmark::State& state, size_t num_threads) {
  const auto pool = *ThreadPool::Create(num_threads);
  double flops = 0;
  for (auto _ : state) flops += MultiplyAddOnce(*pool);
  state.counters["FLOPS"] =
      benchmark::Counter(flops, benchmark::Counter::kIsRate);
}

void RegisterAll(size_t size_bytes) {
  std::vector<size_t> thread_counts = {1};
  const size_t num_processors = std::thread::hardware_concurrency();
  if (num_processors > 1) thread_counts.push_back(num_processors);
  for (const Pages pages : {Pages::kHuge, Pages::kSingle}) {
    for (const size_t num_threads : thread_counts) {
      for (const size_t num_streams : kStreamCounts) {
        const std::string name = std::string("PlainRead/pages:") +
                                 (pages == Pages::kHuge ? "huge" : "single") +
                                 "/streams:" + std::to_string(num_streams) +
                                 "/threads:" + std::to_string(num_threads);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) {
          PlainRead(s, size_bytes, pages, num_streams, num_threads);
        })->UseRealTime();
      }
    }
  }
  for (const size_t num_threads : thread_counts) {
    benchmark::RegisterBenchmark(
        ("MultiplyAdd/threads:" + std::to_string(num_threads)).c_str(),
        [=](benchmark::State& state) { MultiplyAdd(state, num_threads); })
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace lowmem::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  uint64_t size_bytes = uint64_t{192} << 20;
  for (int i = 1; i < argc; ++i) {
    absl::string_view text = argv[i];
    if (!absl::ConsumePrefix(&text, "--read_bytes=") ||
        !absl::SimpleAtoi(text, &size_bytes) ||
        size_bytes < lowmem::bench::kReadPieceBytes) {
      std::fprintf(stderr, "limits_bench: cannot take %s\n", argv[i]);
      return 2;
    }
  }
  lowmem::bench::RegisterAll(size_bytes / lowmem::bench::kReadPieceBytes *
                             lowmem::bench::kReadPieceBytes);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
