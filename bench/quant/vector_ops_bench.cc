// SPDX-License-Identifier: Apache-2.0
// The operations between matrix products but for those over keys and values
// (kv_rows_bench), at the sizes of a 0.5B to 1B model. items_per_second counts
// elements.
#include <algorithm>
#include <vector>

#include "benchmark/benchmark.h"
#include "quant/vector_ops.h"

namespace lowmem {
namespace {

void CountItems(benchmark::State& state, int64_t num_items) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * num_items);
}

void BM_RmsNorm(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> x(n, 0.5f), weight(n, 1.5f);
  std::vector<float> out(n);
  for (auto _ : state) {
    RmsNorm(x.data(), weight.data(), 1e-5f, n, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_RmsNorm)->Arg(896)->Arg(2048);

void BM_LayerNorm(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> x(n, 0.5f), weight(n, 1.5f), bias(n, 0.25f);
  std::vector<float> out(n);
  for (auto _ : state) {
    LayerNorm(x.data(), weight.data(), bias.data(), 1e-12f, n, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_LayerNorm)->Arg(384)->Arg(1024);

// Values are put back before each call, so that they stay what they are.
template <void (*kActivateMul)(const float*, size_t, float*)>
void BM_ActivateMul(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> up(n, 1.0f), values(n, -2.5f);
  std::vector<float> gate(n);
  for (auto _ : state) {
    std::copy(values.begin(), values.end(), gate.begin());
    kActivateMul(up.data(), n, gate.data());
    benchmark::DoNotOptimize(gate.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_ActivateMul<SiluMul>)->Name("BM_SiluMul")->Arg(4864)->Arg(5632);
BENCHMARK(BM_ActivateMul<GeluTanhMul>)->Name("BM_GeluTanhMul")->Arg(6912);

void BM_GeluErf(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> values(n, -2.5f);
  std::vector<float> inout(n);
  for (auto _ : state) {
    std::copy(values.begin(), values.end(), inout.begin());
    GeluErf(n, inout.data());
    benchmark::DoNotOptimize(inout.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_GeluErf)->Arg(1536);

void BM_Softmax(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  std::vector<float> scores(n, 0.25f);
  for (auto _ : state) {
    Softmax(n, scores.data());
    benchmark::DoNotOptimize(scores.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_Softmax)->Arg(64)->Arg(4096);

void BM_RopeAngles(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> inv_freq(n, 0.01f);
  std::vector<float> cos(n), sin(n);
  float position = 0;
  for (auto _ : state) {
    RopeAngles(position, inv_freq.data(), n, 1.0f, cos.data(), sin.data());
    benchmark::DoNotOptimize(cos.data());
    position += 1;
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_RopeAngles)->Arg(32)->Arg(64);

void BM_RopeHalves(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> cos(n, 0.6f), sin(n, 0.8f);
  std::vector<float> head(2 * n, 1.0f);
  for (auto _ : state) {
    RopeHalves(cos.data(), sin.data(), n, head.data());
    benchmark::DoNotOptimize(head.data());
  }
  CountItems(state, 2 * state.range(0));
}
BENCHMARK(BM_RopeHalves)->Arg(32)->Arg(64);

void BM_RopeNeighbours(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> cos(n, 0.6f), sin(n, 0.8f);
  std::vector<float> head(2 * n, 1.0f);
  for (auto _ : state) {
    RopeNeighbours(cos.data(), sin.data(), n, head.data());
    benchmark::DoNotOptimize(head.data());
  }
  CountItems(state, 2 * state.range(0));
}
BENCHMARK(BM_RopeNeighbours)->Arg(32)->Arg(64);

void BM_ArgMax(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  std::vector<float> logits(n, 0.5f);
  logits[n / 2] = 1.0f;
  for (auto _ : state) benchmark::DoNotOptimize(ArgMax(logits.data(), n));
  CountItems(state, state.range(0));
}
BENCHMARK(BM_ArgMax)->Arg(151936);

void BM_FindAbove(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> logits(n, 0.5f);
  for (auto _ : state) {
    benchmark::DoNotOptimize(FindAbove(logits.data(), 0, n, 1.0f));
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_FindAbove)->Arg(151936);

void BM_ScaleLogits(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> logits(n, 0.5f);
  std::vector<float> out(n);
  for (auto _ : state) {
    ScaleLogits(logits.data(), 1.0f, 0.7f, n, out.data());
    benchmark::DoNotOptimize(out.data());
  }
  CountItems(state, state.range(0));
}
BENCHMARK(BM_ScaleLogits)->Arg(151936);

void BM_AllFinite(benchmark::State& state) {
  const size_t n = static_cast<size_t>(state.range(0));
  const std::vector<float> logits(n, 0.5f);
  for (auto _ : state) benchmark::DoNotOptimize(AllFinite(logits.data(), n));
  CountItems(state, state.range(0));
}
BENCHMARK(BM_AllFinite)->Arg(151936);

}  // namespace
}  // namespace lowmem
