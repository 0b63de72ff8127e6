// SPDX-License-Identifier: Apache-2.0
// A prompt of 512 tokens, or half of a shorter context, in chunks of the
// engine's choice.
//   Prefill/<model>/<mode>/threads:<n>
// items_per_second is tokens/s. FLOPS counts two for each weight of the layers
// and token, and for each of the head once, as the last token alone needs it;
// attention over the context is not counted. of_peak is the share of
// multiply-adds in registers.
#include <algorithm>

#include "bench/engine/bench_models.h"
#include "bench/quant/machine_limits.h"
#include "engine/generate/model_summary.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {
namespace {

constexpr size_t kMaxPromptTokens = 512;

double FlopsOf(const ModelConfig& config, size_t num_tokens) {
  const double layer_weights =
      config.dim *
      (2.0 * config.q_dim() + 2.0 * config.kv_dim() + 3.0 * config.ff_dim);
  const double head_weights = 1.0 * config.dim * config.vocab_size;
  return 2.0 *
         (1.0 * num_tokens * config.num_layers * layer_weights + head_weights);
}

void Prefill(benchmark::State& state, const BenchRun& run) {
  const auto opened = OpenOrSkip(state, run, 0);
  if (opened == nullptr) return;
  const absl::StatusOr<ModelSummary> summary = SummarizeModel(OptionsFor(run));
  if (!summary.ok()) return state.SkipWithError("no summary");
  const size_t num_tokens = std::min<size_t>(
      kMaxPromptTokens, opened->engine->max_context_tokens() / 2);
  GenerateOptions options;
  options.max_new_tokens = 1;
  options.sampling.temperature = 0.0f;
  const std::vector<int32_t> ids = PromptIds(run.model, num_tokens);
  const Stopwatch watch;
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
  const double flops =
      FlopsOf(summary->config, num_tokens) * state.iterations();
  const double flops_per_s = flops / watch.Seconds();
  state.SetItemsProcessed(
      static_cast<int64_t>(state.iterations() * num_tokens));
  state.counters["FLOPS"] =
      benchmark::Counter(flops, benchmark::Counter::kIsRate);
  CountOfPeak(state, flops_per_s, **ThreadPool::Create(run.num_threads));
}

const bool kRegistered =
    RegisterForModels("Prefill", benchmark::kMillisecond, Prefill);

}  // namespace
}  // namespace lowmem::bench
