// SPDX-License-Identifier: Apache-2.0
// DotKeys of quant/kv_rows.h for one format of rows. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_DOT_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_DOT_KEYS_INL_H_
#undef LOWMEM_QUANT_KERNELS_DOT_KEYS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_DOT_KEYS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/head_tiles-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/sums_of_lanes-inl.h"
#include "quant/kernels/transform-inl.h"
#include "quant/kv_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Columns [col, col + kVecLanes), of which those beyond n are zeros. No part of
// the loops over whole groups, so called for the sake of their size.
template <class Format>
HWY_NOINLINE FloatVec LoadColumns(const uint8_t* row, size_t n, size_t col) {
  if (col + kVecLanes <= n) {
    FloatVec columns[1];
    Format::Load(row, n, col, columns);
    return columns[0];
  }
  return col < n ? Format::LoadEnd(row, n, col) : hn::Zero(FloatTag());
}

// acc[h * kTileKeys + k] = the lanes of the dot product of head h and key k.
template <class Format, size_t kNumHeads>
HWY_INLINE void DotTile(const float* const (&q)[kNumHeads],
                        const uint8_t* const (&keys)[kTileKeys], size_t n,
                        Lanes (&acc)[kNumHeads * kTileKeys]) {
  const FloatTag d;
  const size_t num_whole = n - n % kNumLanes;
  for (size_t first = 0; first < kNumVecs; first += kVecsAtOnce) {
    FloatVec sums[kNumHeads * kTileKeys][kVecsAtOnce];
    LOWMEM_UNROLL
    for (size_t i = 0; i < kNumHeads * kTileKeys; ++i) {
      LOWMEM_UNROLL
      for (size_t v = 0; v < kVecsAtOnce; ++v) sums[i][v] = hn::Zero(d);
    }
    const auto add = [&](size_t v, const FloatVec(&key)[kTileKeys], size_t h,
                         FloatVec x) HWY_ATTR {
      LOWMEM_UNROLL
      for (size_t k = 0; k < kTileKeys; ++k) {
        FloatVec& sum = sums[h * kTileKeys + k][v];
        sum = hn::MulAdd(key[k], x, sum);
      }
    };
    for (size_t group = 0; group < num_whole; group += kNumLanes) {
      LOWMEM_UNROLL
      for (size_t v = 0; v < kVecsAtOnce; ++v) {
        const size_t col = group + (first + v) * kVecLanes;
        FloatVec key[kTileKeys];
        LOWMEM_UNROLL
        for (size_t k = 0; k < kTileKeys; ++k) {
          FloatVec columns[1];
          Format::Load(keys[k], n, col, columns);
          key[k] = columns[0];
        }
        LOWMEM_UNROLL
        for (size_t h = 0; h < kNumHeads; ++h) {
          add(v, key, h, hn::LoadU(d, q[h] + col));
        }
      }
    }
    if (num_whole != n) {
      LOWMEM_UNROLL
      for (size_t v = 0; v < kVecsAtOnce; ++v) {
        const size_t col = num_whole + (first + v) * kVecLanes;
        FloatVec key[kTileKeys];
        LOWMEM_UNROLL
        for (size_t k = 0; k < kTileKeys; ++k) {
          key[k] = LoadColumns<Format>(keys[k], n, col);
        }
        LOWMEM_UNROLL
        for (size_t h = 0; h < kNumHeads; ++h) {
          add(v, key, h,
              col < n ? LoadPadded(q[h] + col, HWY_MIN(n - col, kVecLanes))
                      : hn::Zero(d));
        }
      }
    }
    LOWMEM_UNROLL
    for (size_t i = 0; i < kNumHeads * kTileKeys; ++i) {
      LOWMEM_UNROLL
      for (size_t v = 0; v < kVecsAtOnce; ++v) {
        acc[i].vec[first + v] = sums[i][v];
      }
    }
  }
}

// Sums of kTileKeys keys for each head, those of head h from out + h *
// out_stride on: a block of four lanes of `sums` each.
template <size_t kNumHeads, class D>
HWY_INLINE void StoreSums(D d, hn::Vec<D> sums, float* out, size_t out_stride) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(out_stride);
  hn::StoreU(sums, d, out);
#else
  if constexpr (hn::MaxLanes(d) > kTileKeys) {
    constexpr size_t kLowerHeads = hn::MaxLanes(d) / (2 * kTileKeys);
    const hn::Half<D> half;
    StoreSums<HWY_MIN(kNumHeads, kLowerHeads)>(half, hn::LowerHalf(half, sums),
                                               out, out_stride);
    if constexpr (kNumHeads > kLowerHeads) {
      StoreSums<kNumHeads - kLowerHeads>(half, hn::UpperHalf(half, sums),
                                         out + kLowerHeads * out_stride,
                                         out_stride);
    }
  } else {
    hn::StoreU(sums, d, out);
  }
#endif
}

// out[h * out_stride + k] = factor * the sum of acc[h * kTileKeys + k].
template <size_t kNumHeads>
HWY_INLINE void SumTile(const Lanes (&acc)[kNumHeads * kTileKeys],
                        FloatVec factor, float* out, size_t out_stride) {
  // A vector of sums serves some heads, or a part of the keys of one.
  constexpr size_t kHeadsAtOnce = HWY_MAX(1, kVecLanes / kTileKeys);
  constexpr size_t kKeysAtOnce = HWY_MIN(kVecLanes, kTileKeys);
  LOWMEM_UNROLL
  for (size_t h = 0; h < kNumHeads; h += kHeadsAtOnce) {
    LOWMEM_UNROLL
    for (size_t k = 0; k < kTileKeys; k += kKeysAtOnce) {
      const size_t first = h * kTileKeys + k;
      FloatVec vectors[kVecLanes];
      LOWMEM_UNROLL
      for (size_t i = 0; i < kVecLanes; ++i) {
        vectors[i] = first + i < kNumHeads * kTileKeys
                         ? SumOfVectors(acc[first + i])
                         : hn::Zero(FloatTag());
      }
      constexpr size_t kNumStored = HWY_MIN(kHeadsAtOnce, kNumHeads);
      StoreSums<kNumStored>(FloatTag(), hn::Mul(factor, SumsOfVectors(vectors)),
                            out + h * out_stride + k, out_stride);
    }
  }
}

// The last key stands in for those that the last tile lacks.
template <class Format, size_t kNumHeads>
HWY_INLINE void DotHeads(const float* const (&heads)[kNumHeads],
                         const uint8_t* keys, const uint8_t* next_keys,
                         size_t num_keys, size_t n, float scale, float* out,
                         size_t out_stride) {
  const FloatVec factor = hn::Set(FloatTag(), scale);
  const size_t row_bytes = Format::RowBytes(n);
  const uint8_t* key = keys;
  for (size_t k = 0; k < num_keys; k += kTileKeys) {
    const size_t num_left = num_keys - k;
    const uint8_t* tile_keys[kTileKeys];
    for (size_t i = 0; i < kTileKeys; ++i) {
      tile_keys[i] = key;
      if (i + 1 < num_left) key += row_bytes;
    }
    if (next_keys != nullptr) {
      FetchAhead(next_keys + k * row_bytes,
                 HWY_MIN(num_left, kTileKeys) * row_bytes);
    }
    Lanes acc[kNumHeads * kTileKeys];
    DotTile<Format>(heads, tile_keys, n, acc);
    if (num_left >= kTileKeys) {
      SumTile<kNumHeads>(acc, factor, out + k, out_stride);
    } else {
      float sums[kNumHeads * kTileKeys];
      SumTile<kNumHeads>(acc, factor, sums, kTileKeys);
      for (size_t h = 0; h < kNumHeads; ++h) {
        std::memcpy(out + h * out_stride + k, sums + h * kTileKeys,
                    num_left * sizeof(float));
      }
    }
  }
}

template <class Format>
void DotKeysOnTarget(const GroupRows<const float>& q, const uint8_t* keys,
                     const uint8_t* next_keys, size_t num_keys, float scale,
                     float* out, size_t out_stride) {
  RowWalk<const float> walk(q);
  ForEachTileOfHeads(q.num_rows(), [&](size_t first, auto count) HWY_ATTR {
    const float* heads[count()];
    for (const float*& head : heads) head = walk.Next();
    DotHeads<Format>(heads, keys, first == 0 ? next_keys : nullptr, num_keys,
                     q.n, scale, out + first * out_stride, out_stride);
  });
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_DOT_KEYS_INL_H_
