// SPDX-License-Identifier: Apache-2.0
// One token after another, from a context of 32 tokens on.
//   Decode/<model>/<mode>/threads:<n>
// items_per_second is tokens/s; weight_bytes_per_second is what that takes from
// memory, of_read the share of a plain read of as many bytes in such pages as
// the mode has them in.
#include <algorithm>

#include "bench/engine/bench_models.h"
#include "bench/quant/machine_limits.h"
#include "bench/quant/read_buffer.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {
namespace {

constexpr size_t kPromptTokens = 32;

// More of a larger model would read no faster.
constexpr uint64_t kMaxReadBytes = uint64_t{512} << 20;

void CountShare(benchmark::State& state, const BenchRun& run,
                uint64_t bytes_per_token, double seconds) {
  const size_t read_bytes =
      std::clamp<uint64_t>(bytes_per_token, kReadPieceBytes, kMaxReadBytes);
  const AlignedBuffer& buffer = SharedBuffer(
      read_bytes, run.mode == Mode::kCopy ? Pages::kHuge : Pages::kSingle);
  if (buffer.size_bytes() == 0) return state.SkipWithError("no memory");
  CountOfRead(state,
              static_cast<double>(bytes_per_token) *
                  static_cast<double>(state.iterations()) / seconds,
              buffer.data(), read_bytes, **ThreadPool::Create(run.num_threads));
}

void Decode(benchmark::State& state, const BenchRun& run) {
  const auto opened = OpenOrSkip(state, run, kPromptTokens);
  if (opened == nullptr) return;
  GenerateOptions options;
  options.ignore_eos = true;
  options.max_new_tokens = 1;
  options.sampling.temperature = 0.0f;
  const auto next_token = [&] {
    return opened->session->Generate(options,
                                     [](absl::string_view) { return true; });
  };
  // The prompt is not what is measured.
  if (!next_token().ok()) return state.SkipWithError("no first token");
  uint64_t weight_bytes = 0;
  const Stopwatch watch;
  for (auto _ : state) {
    const absl::StatusOr<GenerateResult> result = next_token();
    if (!result.ok()) {
      state.SkipWithError(result.status().ToString().c_str());
      return;
    }
    weight_bytes += result->meter.weight_bytes_read;
    // The same lengths in every run: attention costs more in a longer context.
    if (opened->session->ids().size() == 8 * kPromptTokens) {
      state.PauseTiming();
      if (!opened->session->Truncate(kPromptTokens + 1).ok()) return;
      state.ResumeTiming();
    }
  }
  const double seconds = watch.Seconds();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  state.counters["weight_bytes_per_second"] = benchmark::Counter(
      static_cast<double>(weight_bytes), benchmark::Counter::kIsRate,
      benchmark::Counter::kIs1024);
  CountShare(state, run, weight_bytes / state.iterations(), seconds);
}

const bool kRegistered =
    RegisterForModels("Decode", benchmark::kMillisecond, Decode);

}  // namespace
}  // namespace lowmem::bench
