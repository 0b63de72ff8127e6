// SPDX-License-Identifier: Apache-2.0
// Rows are taken in groups of a tile's height and blocks of a few groups,
// tokens in blocks whose columns fit the second-level cache: a block of tokens
// is loaded once for a block of rows, and the rows' bytes stay for all blocks
// of tokens. Smaller caches than a server's would otherwise fetch every token
// for every group.
#include "quant/kernels/multiply_floats.h"

#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/multiply_floats.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

inline constexpr size_t kGroupsPerBlock = 4;
inline constexpr size_t kBlockTokenBytes = 256 << 10;
// Where several vectors make up the lanes, each walks the same columns: as many
// as stay in the first-level cache. One vector walks them all.
inline constexpr size_t kColsAtOnce = kNumVecs == 1 ? size_t{1} << 30 : 1024;

template <class W, size_t kNumTokens>
HWY_INLINE void MultiplyTile(const WeightRows& weights,
                             const size_t (&row_idx)[kTileRows],
                             const Tokens& tokens, size_t first) {
  const uint8_t* rows[kTileRows];
  for (size_t r = 0; r < kTileRows; ++r) {
    rows[r] = weights.data + row_idx[r] * weights.row_bytes;
  }
  LaneSums sums[kTileRows][kNumTokens];
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t t = 0; t < kNumTokens; ++t) SetToZero(sums[r][t]);
  }
  const float* x = tokens.x + first * tokens.x_stride;
  const size_t num_left = weights.num_cols % kNumLanes;
  const size_t num_whole = weights.num_cols - num_left;
  for (size_t col = 0; col < num_whole; col += kColsAtOnce) {
    AddTile<W, kNumTokens>(rows, col, x + col, tokens.x_stride,
                           HWY_MIN(kColsAtOnce, num_whole - col) / kNumLanes,
                           sums[0], kNumTokens);
  }
  if (num_left != 0) {
    const LastGroup<W, kTileRows> last(rows, num_whole, num_left);
    HWY_ALIGN float x_groups[kNumTokens][kNumLanes];
    for (size_t t = 0; t < kNumTokens; ++t) {
      CopyPadded(x + t * tokens.x_stride + num_whole, num_left, x_groups[t]);
    }
    AddTile<W, kNumTokens>(last.rows, 0, x_groups[0], kNumLanes, 1, sums[0],
                           kNumTokens);
  }
  for (size_t r = 0; r < kTileRows; ++r) {
    for (size_t t = 0; t < kNumTokens; ++t) {
      tokens.out[(first + t) * tokens.out_stride + row_idx[r]] =
          SumOf(sums[r][t]);
    }
  }
}

// A group's rows are a fraction of the range apart, as in dot_rows.cc: few
// tokens are bound by memory too. The last row stands in for those that a
// fraction lacks.
template <class W>
void MultiplyRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const Tokens& tokens) {
  const size_t distance = hwy::DivCeil(row_end - row_begin, kTileRows);
  const size_t block_tokens =
      kTileTokens *
      HWY_MAX(1, kBlockTokenBytes /
                     (kTileTokens * weights.num_cols * sizeof(float)));
  for (size_t block = 0; block < distance; block += kGroupsPerBlock) {
    const size_t block_end = HWY_MIN(block + kGroupsPerBlock, distance);
    for (size_t first = 0; first < tokens.num_tokens; first += block_tokens) {
      const Tokens part =
          tokens.Part(first, HWY_MIN(block_tokens, tokens.num_tokens - first));
      for (size_t i = block; i < block_end; ++i) {
        size_t row_idx[kTileRows];
        for (size_t r = 0; r < kTileRows; ++r) {
          row_idx[r] = HWY_MIN(row_begin + r * distance + i, row_end - 1);
        }
        ForEachTileOfTokens(
            part.num_tokens, [&](size_t t, auto count) HWY_ATTR {
              MultiplyTile<W, count()>(weights, row_idx, part, t);
            });
      }
    }
  }
}

void MultiplyFloatsOnTarget(const WeightRows& weights, size_t row_begin,
                            size_t row_end, const Tokens& tokens) {
  switch (weights.dtype) {
    case DType::kF16:
      return MultiplyRows<F16Weights>(weights, row_begin, row_end, tokens);
    case DType::kBF16:
      return MultiplyRows<BF16Weights>(weights, row_begin, row_end, tokens);
    default:
      return MultiplyRows<F32Weights>(weights, row_begin, row_end, tokens);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(MultiplyFloatsOnTarget);

void MultiplyFloats(const WeightRows& weights, size_t row_begin, size_t row_end,
                    const Tokens& tokens) {
  HWY_DYNAMIC_DISPATCH(MultiplyFloatsOnTarget)
  (weights, row_begin, row_end, tokens);
}

}  // namespace lowmem
#endif  // HWY_ONCE
