// SPDX-License-Identifier: Apache-2.0
// DecodeRow for every type: stored bytes and elements a second. The row is as
// long as a feed-forward matrix of a 7B model is wide and stays in the inner
// caches, so that what is measured is decoding, not memory.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "quant/decode.h"
#include "storage/dtype.h"

namespace lowmem {
namespace {

constexpr size_t kRowElements = 4096;

void BM_DecodeRow(benchmark::State& state, DType dtype) {
  const uint64_t row_bytes = *RowBytes(dtype, kRowElements);
  std::vector<uint8_t> row(row_bytes);
  std::mt19937 random(1);
  // Bytes below 0x3C: scales are ordinary numbers, no NaN and no infinity.
  for (uint8_t& byte : row) byte = static_cast<uint8_t>(random() % 0x3C);
  std::vector<float> out(kRowElements);
  for (auto _ : state) {
    DecodeRow(dtype, row.data(), kRowElements, out.data());
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * row_bytes));
  state.SetItemsProcessed(
      static_cast<int64_t>(state.iterations() * kRowElements));
}

const bool kRegistered = [] {
  for (size_t i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    const DTypeTraits& traits = TraitsOf(dtype);
    if (!traits.decodable) continue;
    benchmark::RegisterBenchmark(
        ("DecodeRow/" + std::string(traits.name)).c_str(), BM_DecodeRow, dtype);
  }
  return true;
}();

}  // namespace
}  // namespace lowmem
