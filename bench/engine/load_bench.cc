// SPDX-License-Identifier: Apache-2.0
// Opening a model: headers, tokenizer, and in copy mode the weights.
//   Load/<model>/<mode>
// bytes_per_second counts the weights in copy mode; the file is in the page
// cache or not, as the run before left it.
#include "bench/engine/bench_models.h"

namespace lowmem::bench {
namespace {

void Load(benchmark::State& state, const BenchRun& run) {
  uint64_t resident_bytes = 0;
  for (auto _ : state) {
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Open(OptionsFor(run));
    if (!engine.ok()) {
      state.SkipWithError(engine.status().ToString().c_str());
      return;
    }
    resident_bytes = (*engine)->MemoryReport().resident_weight_bytes;
  }
  if (resident_bytes > 0) {
    state.SetBytesProcessed(
        static_cast<int64_t>(state.iterations() * resident_bytes));
  }
}

const bool kRegistered =
    RegisterForModels("Load", benchmark::kMillisecond, Load);

}  // namespace
}  // namespace lowmem::bench
