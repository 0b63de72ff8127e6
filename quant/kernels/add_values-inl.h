// SPDX-License-Identifier: Apache-2.0
// AddWeightedValues of quant/kv_rows.h for one format of rows. Compiled once
// per target.

#if defined(LOWMEM_QUANT_KERNELS_ADD_VALUES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_ADD_VALUES_INL_H_
#undef LOWMEM_QUANT_KERNELS_ADD_VALUES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_ADD_VALUES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/head_tiles-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/transform-inl.h"
#include "quant/kv_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Rows whose columns and weights are walked together.
template <size_t kNumHeads>
struct WeightedTile {
  const float* weights[kNumHeads];
  float* inout[kNumHeads];
};

// kNumColVecs vectors of columns from `col` on stay in registers while all
// values pass.
template <class Format, size_t kNumColVecs, size_t kNumHeads>
HWY_INLINE void AddColumns(const WeightedTile<kNumHeads>& tile,
                           const uint8_t* values, const uint8_t* next_values,
                           size_t num_values, size_t n, size_t col) {
  const FloatTag d;
  const size_t row_bytes = Format::RowBytes(n);
  FloatVec sums[kNumHeads][kNumColVecs];
  LOWMEM_UNROLL
  for (size_t h = 0; h < kNumHeads; ++h) {
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; ++v) {
      sums[h][v] = hn::LoadU(d, tile.inout[h] + col + v * kVecLanes);
    }
  }
  for (size_t i = 0; i < num_values; ++i) {
    if (next_values != nullptr) {
      FetchAhead(next_values + i * row_bytes + col * Format::kColumnBytes,
                 kNumColVecs * kVecLanes * Format::kColumnBytes);
    }
    FloatVec columns[kNumColVecs];
    Format::Load(values + i * row_bytes, n, col, columns);
    LOWMEM_UNROLL
    for (size_t h = 0; h < kNumHeads; ++h) {
      const FloatVec weight = hn::Set(d, tile.weights[h][i]);
      LOWMEM_UNROLL
      for (size_t v = 0; v < kNumColVecs; ++v) {
        sums[h][v] = hn::MulAdd(weight, columns[v], sums[h][v]);
      }
    }
  }
  LOWMEM_UNROLL
  for (size_t h = 0; h < kNumHeads; ++h) {
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; ++v) {
      hn::StoreU(sums[h][v], d, tile.inout[h] + col + v * kVecLanes);
    }
  }
}

// Columns [col, n), fewer than kVecLanes.
template <class Format, size_t kNumHeads>
HWY_INLINE void AddLastColumns(const WeightedTile<kNumHeads>& tile,
                               const uint8_t* values, size_t num_values,
                               size_t n, size_t col) {
  const FloatTag d;
  for (size_t h = 0; h < kNumHeads; ++h) {
    FloatVec sum = LoadPadded(tile.inout[h] + col, n - col);
    for (size_t i = 0; i < num_values; ++i) {
      sum = hn::MulAdd(
          hn::Set(d, tile.weights[h][i]),
          Format::LoadEnd(values + i * Format::RowBytes(n), n, col), sum);
    }
    HWY_ALIGN float end[kVecLanes];
    hn::Store(sum, d, end);
    std::memcpy(tile.inout[h] + col, end, (n - col) * sizeof(float));
  }
}

template <class Format>
void AddWeightedValuesOnTarget(const float* weights, size_t weights_stride,
                               const uint8_t* values,
                               const uint8_t* next_values, size_t num_values,
                               size_t begin, size_t end,
                               const GroupRows<float>& inout) {
  constexpr size_t kTileCols = kTileColVecs * kVecLanes;
  RowWalk<float> walk(inout);
  ForEachTileOfHeads(inout.num_rows(), [&](size_t first, auto count) HWY_ATTR {
    WeightedTile<count()> tile;
    for (size_t h = 0; h < count(); ++h) {
      tile.weights[h] = weights + (first + h) * weights_stride;
      tile.inout[h] = walk.Next();
    }
    const uint8_t* next = first == 0 ? next_values : nullptr;
    // Columns that share a scale are loaded together, so tiles are aligned.
    for (size_t j = begin; j < end;) {
      if (j % kTileCols == 0 && j + kTileCols <= end) {
        AddColumns<Format, kTileColVecs>(tile, values, next, num_values,
                                         inout.n, j);
        j += kTileCols;
      } else if (j + kVecLanes <= end) {
        AddColumns<Format, 1>(tile, values, next, num_values, inout.n, j);
        j += kVecLanes;
      } else {
        AddLastColumns<Format>(tile, values, num_values, inout.n, j);
        j = end;
      }
    }
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_ADD_VALUES_INL_H_
