// SPDX-License-Identifier: Apache-2.0
// The inner loop of products with many tokens: a tile of a few rows and tokens,
// whose sums stay in registers. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_TILE_INL_H_
#undef LOWMEM_QUANT_KERNELS_TILE_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_TILE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/sums_of_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// A sum for each row and token, a vector for each row and one for a token must
// fit the registers: 32 of them, or 16; without fused multiply-add the product
// needs one more.
// Tall tiles load fewer columns of tokens, which come from the second-level
// cache (Zen 5, K = 896, GFLOP/s: 5 x 5 209, 6 x 4 235, of a peak of 268).
#if HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
inline constexpr size_t kTileRows = 6;
inline constexpr size_t kTileTokens = 4;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
inline constexpr size_t kTileRows = 3;
inline constexpr size_t kTileTokens = 4;
#else
inline constexpr size_t kTileRows = 3;
inline constexpr size_t kTileTokens = 3;
#endif

// The 16 lanes of one sum, between calls.
struct LaneSums {
  HWY_ALIGN float lane[kNumLanes];
};

// The totals of the lanes of kNumSums sums, as many as a vector has lanes or
// half, a quarter, ... as many.
template <size_t kNumSums>
HWY_INLINE void AddLanes(const LaneSums* sums, float* totals) {
  const FloatTag d;
  FloatVec vectors[kNumSums];
  LOWMEM_UNROLL
  for (size_t i = 0; i < kNumSums; ++i) {
    Lanes lanes;
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumVecs; ++v) {
      lanes.vec[v] = hn::Load(d, sums[i].lane + v * kVecLanes);
    }
    vectors[i] = SumOfVectors(lanes);
  }
  if constexpr (kNumSums == kVecLanes) {
    hn::StoreU(SumsOfVectors(vectors), d, totals);
  } else {
    HWY_ALIGN float lanes[kVecLanes];
    hn::Store(SumsOfVectors(vectors), d, lanes);
    LOWMEM_UNROLL
    for (size_t i = 0; i < kNumSums; ++i) {
      totals[i] = lanes[i * (kVecLanes / kNumSums)];
    }
  }
}

// The same for any number of sums, the widest parts first.
template <size_t kNumSums, size_t kAtOnce = kVecLanes>
HWY_INLINE void AddAllLanes(const LaneSums* sums, float* totals) {
  if constexpr (kNumSums >= kAtOnce) {
    AddLanes<kAtOnce>(sums, totals);
    AddAllLanes<kNumSums - kAtOnce, kAtOnce>(sums + kAtOnce, totals + kAtOnce);
  } else if constexpr (kNumSums > 0) {
    AddAllLanes<kNumSums, kAtOnce / 2>(sums, totals);
  }
}

// sums[t * kTileRows + r] += `num_groups` groups of 16 columns of row r, from
// first_col on, times those of token t, from x + t * x_stride on; with
// kFromZero the sums begin here. The lanes are taken one vector after another,
// each over all columns: a tile of whole sets of lanes would be too small on
// narrow targets to keep the multipliers busy.
template <class W, size_t kNumTokens, bool kFromZero>
HWY_INLINE void AddTile(const uint8_t* const (&rows)[kTileRows],
                        size_t first_col, const float* x, size_t x_stride,
                        size_t num_groups, LaneSums* sums) {
  const FloatTag d;
  for (size_t lane = 0; lane < kNumLanes; lane += kVecLanes) {
    FloatVec acc[kTileRows][kNumTokens];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kTileRows; ++r) {
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        acc[r][t] = kFromZero
                        ? hn::Zero(d)
                        : hn::Load(d, sums[t * kTileRows + r].lane + lane);
      }
    }
    const size_t end = num_groups * kNumLanes + lane;
    for (size_t col = lane; col < end; col += kNumLanes) {
      FloatVec w[kTileRows];
      LOWMEM_UNROLL
      for (size_t r = 0; r < kTileRows; ++r) {
        w[r] = W::Load(rows[r] + (first_col + col) * W::kElementBytes);
      }
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        const FloatVec xv = hn::LoadU(d, x + t * x_stride + col);
        LOWMEM_UNROLL
        for (size_t r = 0; r < kTileRows; ++r) {
          acc[r][t] = hn::MulAdd(w[r], xv, acc[r][t]);
        }
      }
    }
    LOWMEM_UNROLL
    for (size_t r = 0; r < kTileRows; ++r) {
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        hn::Store(acc[r][t], d, sums[t * kTileRows + r].lane + lane);
      }
    }
  }
}

// Calls f(first, count) with a constant count <= kTileTokens, as
// std::integral_constant, for each of the tiles that `num_tokens` need. Tokens
// are spread evenly: 6 are 3 and 3, which keeps more sums going than 5 and 1.
template <class F>
HWY_INLINE void ForEachTileOfTokens(size_t num_tokens, F f) {
  size_t num_tiles = hwy::DivCeil(num_tokens, kTileTokens);
  for (size_t first = 0; first < num_tokens; --num_tiles) {
    const size_t count = hwy::DivCeil(num_tokens - first, num_tiles);
    switch (count) {
      case 1:
        f(first, std::integral_constant<size_t, 1>());
        break;
      case 2:
        f(first, std::integral_constant<size_t, 2>());
        break;
      case 3:
        f(first, std::integral_constant<size_t, 3>());
        break;
      case 4:
        f(first, std::integral_constant<size_t, HWY_MIN(4, kTileTokens)>());
        break;
      default:
        f(first, std::integral_constant<size_t, kTileTokens>());
    }
    first += count;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_TILE_INL_H_
