// SPDX-License-Identifier: Apache-2.0
// Matrix products per stored type, shape, number of tokens and threads.
//   MatMul/<type>/<rows>x<cols>/tokens:<n>/threads:<n>
// bytes_per_second counts stored weight bytes, items_per_second rows, FLOPS two
// for each weight and token. of_read is the share of a plain read of the same
// bytes, the limit for one token; of_peak that of multiply-adds in registers,
// the limit for many. Matrices are taken in turn from a buffer larger than the
// caches, as a pass over a model takes them.
#include <memory>
#include <string>
#include <vector>

#include "bench/quant/machine_limits.h"
#include "bench/quant/read_buffer.h"
#include "benchmark/benchmark.h"
#include "quant/matmul.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"
#include "storage/base/thread_pool.h"

namespace lowmem::bench {
namespace {

constexpr size_t kBufferBytes = size_t{192} << 20;

// Above, products are bound by arithmetic on every machine.
constexpr size_t kMaxTokensOfRead = 8;

// Numbers around 1 in every type: bytes of 0x3c are such floats and plain
// quants. In the pages that weights are copied to.
const AlignedBuffer& WeightBuffer() {
  static const auto* const buffer =
      new AlignedBuffer(*FilledBuffer(kBufferBytes, Pages::kHuge, 0x3c));
  return *buffer;
}

std::unique_ptr<ThreadPool> Threads(int64_t num_threads) {
  return *ThreadPool::Create(static_cast<size_t>(num_threads));
}

struct Shape {
  size_t num_rows;
  size_t num_cols;
};

void BM_MatMul(benchmark::State& state, DType dtype, Shape shape,
               size_t num_tokens, int64_t num_threads) {
  const AlignedBuffer& buffer = WeightBuffer();
  const auto pool = Threads(num_threads);
  const size_t row_bytes = *RowBytes(dtype, shape.num_cols);
  const size_t matrix_bytes = row_bytes * shape.num_rows;
  const size_t num_matrices = kBufferBytes / matrix_bytes;
  // On a cache line, as the buffers of a forward pass are.
  MemoryAccount account("x", MemoryAccount::kUnlimited, nullptr);
  AlignedBuffer x_bytes = *AlignedBuffer::Allocate(
      num_tokens * shape.num_cols * sizeof(float), account);
  float* x = reinterpret_cast<float*>(x_bytes.data());
  std::fill_n(x, num_tokens * shape.num_cols, 1e-3f);
  AlignedBuffer scratch_bytes = *AlignedBuffer::Allocate(
      std::max<size_t>(
          1, pool->num_threads() * MatMulScratch(shape.num_cols, num_tokens)) *
          sizeof(float),
      account);
  const MatMulWorkers workers = {
      *pool,
      {reinterpret_cast<float*>(scratch_bytes.data()),
       scratch_bytes.size_bytes() / sizeof(float)}};
  std::vector<float> out(num_tokens * shape.num_rows);
  size_t matrix_idx = 0;
  const Stopwatch watch;
  for (auto _ : state) {
    const WeightRows weights{dtype, buffer.data() + matrix_idx * matrix_bytes,
                             row_bytes, shape.num_rows, shape.num_cols};
    MatMul(weights, x, shape.num_cols, num_tokens, out.data(), shape.num_rows,
           workers);
    benchmark::DoNotOptimize(out.data());
    matrix_idx = (matrix_idx + 1) % num_matrices;
  }
  const double seconds = watch.Seconds();
  const double iterations = static_cast<double>(state.iterations());
  const double bytes = iterations * static_cast<double>(matrix_bytes);
  const double flops =
      2.0 * iterations *
      static_cast<double>(num_tokens * shape.num_rows * shape.num_cols);
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(shape.num_rows));
  state.counters["FLOPS"] =
      benchmark::Counter(flops, benchmark::Counter::kIsRate);
  if (num_tokens <= kMaxTokensOfRead) {
    CountOfRead(state, bytes / seconds, buffer.data(),
                num_matrices * matrix_bytes, *pool);
  }
  CountOfPeak(state, flops / seconds, *pool);
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
      for (const int64_t num_threads : {1, 2}) {
        Register(dtype, {2048, 5632}, num_tokens, num_threads);
      }
    }
  }
  return 0;
}

const int registered = RegisterAll();

}  // namespace
}  // namespace lowmem::bench
