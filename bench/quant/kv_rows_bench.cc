// SPDX-License-Identifier: Apache-2.0
// Attention's operations over encoded keys and values.
//   <operation>/<format: 0 f32, 1 bf16, 2 q8>/<positions>/<head_dim>/<heads>
// items_per_second counts products, bytes_per_second what is read of the rows,
// of_read is the share of a plain read of the same bytes, from where they lie.
// Positions come in pages of 16, as the cache has them; 131072 exceed the
// caches of most machines.
#include <algorithm>
#include <vector>

#include "bench/quant/machine_limits.h"
#include "benchmark/benchmark.h"
#include "quant/kv_rows.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {
namespace {

constexpr size_t kPageTokens = 16;

struct Rows {
  explicit Rows(const benchmark::State& state)
      : format(static_cast<KvFormat>(state.range(0))),
        num_rows(static_cast<size_t>(state.range(1))),
        n(static_cast<size_t>(state.range(2))),
        num_heads(static_cast<size_t>(state.range(3))),
        row_bytes(KvRowBytes(format, n)),
        bytes(num_rows * row_bytes) {
    const std::vector<float> row(n, 0.5f);
    for (size_t i = 0; i < num_rows; ++i) {
      EncodeKvRow(format, row.data(), n, &bytes[i * row_bytes]);
    }
  }

  const uint8_t* Page(size_t i) const { return &bytes[i * row_bytes]; }
  const uint8_t* NextPage(size_t i) const {
    return i + kPageTokens < num_rows ? Page(i + kPageTokens) : nullptr;
  }

  void Count(benchmark::State& state, double seconds) const {
    const auto iterations = static_cast<int64_t>(state.iterations());
    const int64_t read_bytes = iterations * static_cast<int64_t>(bytes.size());
    state.SetItemsProcessed(iterations * state.range(1) * state.range(2) *
                            state.range(3));
    state.SetBytesProcessed(read_bytes);
    CountOfRead(state, static_cast<double>(read_bytes) / seconds, bytes.data(),
                bytes.size(), **ThreadPool::Create(1));
  }

  KvFormat format;
  size_t num_rows;
  size_t n;
  size_t num_heads;
  size_t row_bytes;
  std::vector<uint8_t> bytes;
};

template <typename Float>
GroupRows<Float> OneToken(Float* data, const Rows& rows) {
  return {.data = data,
          .num_tokens = 1,
          .group_size = rows.num_heads,
          .token_stride = rows.num_heads * rows.n,
          .n = rows.n};
}

void BM_DotKeys(benchmark::State& state) {
  const Rows keys(state);
  const std::vector<float> q(keys.num_heads * keys.n, 0.5f);
  std::vector<float> out(keys.num_heads * keys.num_rows);
  const Stopwatch watch;
  for (auto _ : state) {
    for (size_t i = 0; i < keys.num_rows; i += kPageTokens) {
      DotKeys(keys.format, OneToken(q.data(), keys), keys.Page(i),
              keys.NextPage(i), kPageTokens, 0.125f, &out[i], keys.num_rows);
    }
    benchmark::DoNotOptimize(out.data());
  }
  keys.Count(state, watch.Seconds());
}

void BM_AddWeightedValues(benchmark::State& state) {
  const Rows values(state);
  const std::vector<float> weights(values.num_heads * values.num_rows, 0.5f);
  std::vector<float> out(values.num_heads * values.n);
  const Stopwatch watch;
  for (auto _ : state) {
    for (size_t i = 0; i < values.num_rows; i += kPageTokens) {
      AddWeightedValues(values.format, &weights[i], values.num_rows,
                        values.Page(i), values.NextPage(i), kPageTokens, 0,
                        values.n, OneToken(out.data(), values));
    }
    benchmark::DoNotOptimize(out.data());
  }
  values.Count(state, watch.Seconds());
}

const std::vector<std::vector<int64_t>> kSizes = {
    {0, 1, 2}, {2048, 131072}, {64, 128}, {1, 3, 8}};
const std::vector<std::string> kNames = {"format", "tokens", "head_dim",
                                         "heads"};
BENCHMARK(BM_DotKeys)->ArgsProduct(kSizes)->ArgNames(kNames)->UseRealTime();
BENCHMARK(BM_AddWeightedValues)
    ->ArgsProduct(kSizes)
    ->ArgNames(kNames)
    ->UseRealTime();

}  // namespace
}  // namespace lowmem::bench
