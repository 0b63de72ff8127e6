// SPDX-License-Identifier: Apache-2.0
// Matrix products per stored type, shape, number of tokens and threads.
//   MemoryRead        a plain read of as many bytes: the limit for one token
//   MatMul/<type>/<rows>x<cols>/tokens:<n>/threads:<n>
// bytes_per_second counts stored weight bytes, FLOPS two for each weight and
// token. Matrices are taken in turn from a buffer larger than the caches, as a
// pass over a model takes them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "quant/matmul.h"
#include "storage/base/thread_pool.h"

namespace lowmem {
namespace {

constexpr size_t kBufferBytes = size_t{192} << 20;

// Numbers around 1 in every type: bytes of 0x3c are such floats and plain
// quants.
const std::vector<uint8_t>& WeightBuffer() {
  static const auto* buffer = new std::vector<uint8_t>(kBufferBytes, 0x3c);
  return *buffer;
}

std::unique_ptr<ThreadPool> Threads(int64_t num_threads) {
  return *ThreadPool::Create(static_cast<size_t>(num_threads));
}

void BM_MemoryRead(benchmark::State& state) {
  const std::vector<uint8_t>& buffer = WeightBuffer();
  const auto pool = Threads(state.range(0));
  for (auto _ : state) {
    pool->ParallelFor(
        kBufferBytes / 4096, 256, [&](size_t begin, size_t end, size_t) {
          uint64_t sums[8] = {};
          for (size_t ofs = begin * 4096; ofs < end * 4096; ofs += 64) {
            uint64_t words[8];
            std::memcpy(words, buffer.data() + ofs, sizeof(words));
            for (size_t i = 0; i < 8; ++i) sums[i] += words[i];
          }
          benchmark::DoNotOptimize(sums);
        });
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kBufferBytes));
}

struct Shape {
  size_t num_rows;
  size_t num_cols;
};

void BM_MatMul(benchmark::State& state, DType dtype, Shape shape,
               size_t num_tokens, int64_t num_threads) {
  const std::vector<uint8_t>& buffer = WeightBuffer();
  const auto pool = Threads(num_threads);
  const size_t row_bytes = *RowBytes(dtype, shape.num_cols);
  const size_t matrix_bytes = row_bytes * shape.num_rows;
  const size_t num_matrices = kBufferBytes / matrix_bytes;
  const std::vector<float> x(num_tokens * shape.num_cols, 1e-3f);
  std::vector<float> out(num_tokens * shape.num_rows);
  size_t matrix_idx = 0;
  for (auto _ : state) {
    const WeightRows weights{dtype, buffer.data() + matrix_idx * matrix_bytes,
                             row_bytes, shape.num_rows, shape.num_cols};
    MatMul(weights, x.data(), shape.num_cols, num_tokens, out.data(),
           shape.num_rows, *pool);
    benchmark::DoNotOptimize(out.data());
    matrix_idx = (matrix_idx + 1) % num_matrices;
  }
  const double iterations = static_cast<double>(state.iterations());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(matrix_bytes));
  state.counters["FLOPS"] = benchmark::Counter(
      2.0 * iterations * static_cast<double>(num_tokens) *
          static_cast<double>(shape.num_rows * shape.num_cols),
      benchmark::Counter::kIsRate);
}

void Register(DType dtype, Shape shape, size_t num_tokens,
              int64_t num_threads) {
  const std::string name = "MatMul/" + std::string(TraitsOf(dtype).name) + "/" +
                           std::to_string(shape.num_rows) + "x" +
                           std::to_string(shape.num_cols) +
                           "/tokens:" + std::to_string(num_tokens) +
                           "/threads:" + std::to_string(num_threads);
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    BM_MatMul(state, dtype, shape, num_tokens, num_threads);
  })->UseRealTime();
}

// Gate or down projections of Qwen2.5-0.5B, SmolLM2-135M and TinyLlama-1.1B.
constexpr Shape kShapes[] = {
    {4864, 896}, {896, 4864}, {576, 1536}, {2048, 5632}};

int RegisterAll() {
  benchmark::RegisterBenchmark("MemoryRead", BM_MemoryRead)
      ->ArgName("threads")
      ->Arg(1)
      ->Arg(2)
      ->UseRealTime();
  for (const Shape& shape : kShapes) {
    for (const size_t num_tokens : {1, 2, 4, 8, 64, 128}) {
      for (const int64_t num_threads : {1, 2}) {
        Register(DType::kBF16, shape, num_tokens, num_threads);
      }
    }
  }
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (!TraitsOf(dtype).decodable || dtype == DType::kBF16) continue;
    for (const size_t num_tokens : {1, 8, 128}) {
      Register(dtype, {2048, 5632}, num_tokens, 1);
    }
  }
  return 0;
}

const int registered = RegisterAll();

}  // namespace
}  // namespace lowmem
