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

// out[t * out_stride] = the sum of sums[t]. Four at a time share the additions
// of one vector where a vector holds all lanes; each is added in the same
// halves as alone.
template <size_t kNumTokens>
HWY_INLINE void WriteSums(const LaneSums* sums, float* out, size_t out_stride) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kNumTokens == 4) {
    const FloatTag d;
    const auto add_halves = [d](FloatVec a, FloatVec b) HWY_ATTR {
      return hn::Add(hn::ConcatLowerLower(d, b, a),
                     hn::ConcatUpperUpper(d, b, a));
    };
    const FloatVec first =
        add_halves(hn::Load(d, sums[0].lane), hn::Load(d, sums[1].lane));
    const FloatVec last =
        add_halves(hn::Load(d, sums[2].lane), hn::Load(d, sums[3].lane));
    // Blocks of four lanes: of tokens 0, 2, 1, 3.
    const FloatVec blocks =
        hn::Add(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(last), first),
                hn::OddEvenBlocks(last, hn::SwapAdjacentBlocks(first)));
    const FloatVec pairs = hn::Add(blocks, hn::Shuffle1032(blocks));
    HWY_ALIGN float totals[kNumLanes];
    hn::Store(hn::Add(pairs, hn::Shuffle2301(pairs)), d, totals);
    out[0] = totals[0];
    out[out_stride] = totals[8];
    out[2 * out_stride] = totals[4];
    out[3 * out_stride] = totals[12];
    return;
  }
#endif
  for (size_t t = 0; t < kNumTokens; ++t) {
    Lanes lanes;
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumVecs; ++v) {
      lanes.vec[v] = hn::Load(FloatTag(), sums[t].lane + v * kVecLanes);
    }
    out[t * out_stride] = SumOfLanes(lanes);
  }
}

// sums[r * sums_stride + t] += `num_groups` groups of 16 columns of row r, from
// first_col on, times those of token t, from x + t * x_stride on; with
// kFromZero the sums begin here. The lanes are taken one vector after another,
// each over all columns: a tile of whole sets of lanes would be too small on
// narrow targets to keep the multipliers busy.
template <class W, size_t kNumTokens, bool kFromZero>
HWY_INLINE void AddTile(const uint8_t* const (&rows)[kTileRows],
                        size_t first_col, const float* x, size_t x_stride,
                        size_t num_groups, LaneSums* sums, size_t sums_stride) {
  const FloatTag d;
  for (size_t lane = 0; lane < kNumLanes; lane += kVecLanes) {
    FloatVec acc[kTileRows][kNumTokens];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kTileRows; ++r) {
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        acc[r][t] = kFromZero
                        ? hn::Zero(d)
                        : hn::Load(d, sums[r * sums_stride + t].lane + lane);
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
        hn::Store(acc[r][t], d, sums[r * sums_stride + t].lane + lane);
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
