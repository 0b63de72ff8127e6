// SPDX-License-Identifier: Apache-2.0
// What the machine gives.
//   PlainRead/pages:<huge|single>/streams:<n>/threads:<n>  bytes/s
//   MultiplyAdd/threads:<n>                                FLOP/s
//   --threads=N,...  default: one, and all processors that this process may use
//   --read_bytes=N   bytes that a read goes over; default 192 MiB. More than
//   the
//                    caches hold, or as many as the model in question has.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
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

struct Flags {
  std::set<size_t> thread_counts = {
      1, std::max<size_t>(1, std::thread::hardware_concurrency())};
  uint64_t read_bytes = uint64_t{192} << 20;
};

bool ParseFlag(absl::string_view text, Flags& flags) {
  if (absl::ConsumePrefix(&text, "--read_bytes=")) {
    return absl::SimpleAtoi(text, &flags.read_bytes) &&
           flags.read_bytes >= kReadPieceBytes;
  }
  if (!absl::ConsumePrefix(&text, "--threads=")) return false;
  flags.thread_counts.clear();
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    uint32_t count = 0;
    if (!absl::SimpleAtoi(item, &count) || count < 1 || count > 1024) {
      return false;
    }
    flags.thread_counts.insert(count);
  }
  return true;
}

void RegisterAll(const Flags& flags) {
  const size_t size_bytes =
      flags.read_bytes / kReadPieceBytes * kReadPieceBytes;
  for (const Pages pages : {Pages::kHuge, Pages::kSingle}) {
    for (const size_t num_threads : flags.thread_counts) {
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
  for (const size_t num_threads : flags.thread_counts) {
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
  lowmem::bench::Flags flags;
  for (int i = 1; i < argc; ++i) {
    if (!lowmem::bench::ParseFlag(argv[i], flags)) {
      std::fprintf(stderr, "limits_bench: cannot take %s\n", argv[i]);
      return 2;
    }
  }
  lowmem::bench::RegisterAll(flags);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
