// SPDX-License-Identifier: Apache-2.0
// How the query heads of quant/kv_rows.h are taken: a few at a time, with a few
// keys or a few vectors of columns, as many as keep their sums in registers. A
// row of keys or values is loaded once for the heads of a tile, and comes from
// the first-level cache for the next one. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_HEAD_TILES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_HEAD_TILES_INL_H_
#undef LOWMEM_QUANT_KERNELS_HEAD_TILES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_HEAD_TILES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kv_rows.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// A tile's sums, a vector for each key, or each vector of columns, and one for
// a head must fit the registers: 32 of them, or 16. Of the vectors that make up
// the 16 lanes, kVecsAtOnce are summed at a time; all of them where compilers
// make vectors of them.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr size_t kTileHeads = 4;
inline constexpr size_t kTileKeys = 4;
inline constexpr size_t kVecsAtOnce = 1;
inline constexpr size_t kTileColVecs = 4;
#elif HWY_TARGET == HWY_SCALAR
inline constexpr size_t kTileHeads = 1;
inline constexpr size_t kTileKeys = 1;
inline constexpr size_t kVecsAtOnce = kNumVecs;
inline constexpr size_t kTileColVecs = 8;
#else
inline constexpr size_t kTileHeads = 2;
inline constexpr size_t kTileKeys = 4;
inline constexpr size_t kVecsAtOnce = 1;
inline constexpr size_t kTileColVecs = 4;
#endif

// Walks the rows of a group in order, without a division for each.
template <typename Float>
class RowWalk {
 public:
  explicit RowWalk(const GroupRows<Float>& rows)
      : rows_(rows), next_(rows.data) {}

  Float* Next() {
    Float* row = next_;
    next_ += rows_.n;
    if (++head_idx_ == rows_.group_size) {
      head_idx_ = 0;
      next_ += rows_.token_stride - rows_.group_size * rows_.n;
    }
    return row;
  }

 private:
  const GroupRows<Float>& rows_;
  Float* next_;
  size_t head_idx_ = 0;
};

// Calls f(first, count) with a constant count <= kTileHeads, as
// std::integral_constant, for each of the tiles that `num_rows` need. Rows are
// spread evenly: 5 are 3 and 2, which keeps more sums going than 4 and 1.
template <class F>
HWY_INLINE void ForEachTileOfHeads(size_t num_rows, F f) {
  size_t num_tiles = hwy::DivCeil(num_rows, kTileHeads);
  for (size_t first = 0; first < num_rows; --num_tiles) {
    const size_t count = hwy::DivCeil(num_rows - first, num_tiles);
    switch (count) {
      case 1:
        f(first, std::integral_constant<size_t, 1>());
        break;
      case 2:
        f(first, std::integral_constant<size_t, HWY_MIN(2, kTileHeads)>());
        break;
      case 3:
        f(first, std::integral_constant<size_t, HWY_MIN(3, kTileHeads)>());
        break;
      default:
        f(first, std::integral_constant<size_t, kTileHeads>());
    }
    first += count;
  }
}

// Has the cache fetch what will be asked for soon.
HWY_INLINE void FetchAhead(const uint8_t* bytes, size_t num_bytes) {
  for (size_t i = 0; i < num_bytes; i += kCacheLineBytes) {
    hwy::Prefetch(bytes + i);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_HEAD_TILES_INL_H_
