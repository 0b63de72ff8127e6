// SPDX-License-Identifier: Apache-2.0
// One token after another, from a context of 32 tokens on.
//   Decode/<model>/<mode>
// items_per_second is tokens/s; weight_bytes_per_second is what that takes from
// memory.
#include "bench/engine/bench_models.h"

namespace lowmem::bench {
namespace {

constexpr size_t kPromptTokens = 32;

void Decode(benchmark::State& state, const BenchModel& model, Mode mode) {
  const auto opened = OpenOrSkip(state, model, mode, kPromptTokens);
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
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  state.counters["weight_bytes_per_second"] = benchmark::Counter(
      static_cast<double>(weight_bytes), benchmark::Counter::kIsRate,
      benchmark::Counter::kIs1024);
}

const bool kRegistered =
    RegisterForModels("Decode", benchmark::kMillisecond, Decode);

}  // namespace
}  // namespace lowmem::bench
