// SPDX-License-Identifier: Apache-2.0
// A prompt of 256 tokens, in chunks of the engine's choice.
//   Prefill/<model>/<mode>
// items_per_second is tokens/s.
#include "bench/engine/bench_models.h"

namespace lowmem::bench {
namespace {

constexpr size_t kPromptTokens = 256;

void Prefill(benchmark::State& state, const BenchModel& model, Mode mode) {
  const auto opened = OpenOrSkip(state, model, mode, 0);
  if (opened == nullptr) return;
  GenerateOptions options;
  options.max_new_tokens = 1;
  options.sampling.temperature = 0.0f;
  const std::vector<int32_t> ids = PromptIds(model, kPromptTokens);
  for (auto _ : state) {
    absl::Status status = opened->session->Truncate(0);
    if (status.ok()) status = opened->session->AppendIds(ids);
    if (status.ok()) {
      status = opened->session
                   ->Generate(options, [](absl::string_view) { return true; })
                   .status();
    }
    if (!status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      return;
    }
  }
  state.SetItemsProcessed(
      static_cast<int64_t>(state.iterations() * kPromptTokens));
}

const bool kRegistered =
    RegisterForModels("Prefill", benchmark::kMillisecond, Prefill);

}  // namespace
}  // namespace lowmem::bench
