// SPDX-License-Identifier: Apache-2.0
// Columns are taken in panels: a panel of a tile's rows is decoded into the
// first-level cache and meets all tokens of a block, whose columns of that
// panel stay in the second-level cache for all tiles of the block of rows. Sums
// between panels are kept as 16 lanes, so the order of summation is the one of
// a single row.
#include "quant/kernels/multiply_blocks.h"

#include "quant/decode.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/multiply_blocks.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// 20 KiB for five rows, which leaves room in 32 KiB for the tokens' columns.
inline constexpr size_t kPanelCols = 1024;
// One group more than used: rows a multiple of 4 KiB apart would share cache
// sets.
inline constexpr size_t kPanelStride = kPanelCols + kNumLanes;
inline constexpr size_t kBlockTokens = 128;
static_assert(kRowsPerBlock % kTileRows == 0);

struct Scratch {
  HWY_ALIGN float panel[kTileRows][kPanelStride];
  LaneSums sums[kRowsPerBlock][kBlockTokens];
};

// The processor sees no stream in pieces of rows, so they are asked for one
// tile or panel ahead (Q6_K: twice as fast for 2 tokens).
HWY_INLINE void PrefetchBytes(const uint8_t* src, size_t num_bytes) {
  for (size_t ofs = 0; ofs < num_bytes; ofs += kCacheLineBytes) {
    hwy::Prefetch(src + ofs);
  }
}

void MultiplyBlock(const WeightRows& weights, size_t row_begin, size_t num_rows,
                   const Tokens& tokens, Scratch& scratch) {
  const DTypeTraits& traits = TraitsOf(weights.dtype);
  for (LaneSums(&sums)[kBlockTokens] : scratch.sums) {
    std::memset(sums, 0, tokens.num_tokens * sizeof(LaneSums));
  }
  const uint8_t* panel_rows[kTileRows];
  for (size_t r = 0; r < kTileRows; ++r) {
    panel_rows[r] = reinterpret_cast<const uint8_t*>(scratch.panel[r]);
  }
  for (size_t col = 0; col < weights.num_cols; col += kPanelCols) {
    const size_t num_cols = HWY_MIN(kPanelCols, weights.num_cols - col);
    const uint8_t* src = weights.data + row_begin * weights.row_bytes +
                         col / traits.block_elements * traits.block_bytes;
    const size_t piece_bytes =
        num_cols / traits.block_elements * traits.block_bytes;
    const size_t next_piece_bytes =
        HWY_MIN(kPanelCols, weights.num_cols - col - num_cols) /
        traits.block_elements * traits.block_bytes;
    for (size_t row = 0; row < num_rows; row += kTileRows) {
      // A tile cut short by the end of the rows computes with what the panel
      // held before; nobody reads those sums.
      for (size_t r = 0; r < kTileRows && row + r < num_rows; ++r) {
        const uint8_t* piece = src + (row + r) * weights.row_bytes;
        if (row + kTileRows + r < num_rows) {
          PrefetchBytes(piece + kTileRows * weights.row_bytes, piece_bytes);
        } else {
          PrefetchBytes(src + r * weights.row_bytes + piece_bytes,
                        next_piece_bytes);
        }
        DecodeRow(weights.dtype, piece, num_cols, scratch.panel[r]);
      }
      ForEachTileOfTokens(
          tokens.num_tokens, [&](size_t t, auto count) HWY_ATTR {
            AddTile<F32Weights, count()>(panel_rows, 0,
                                         tokens.x + t * tokens.x_stride + col,
                                         tokens.x_stride, num_cols / kNumLanes,
                                         &scratch.sums[row][t], kBlockTokens);
          });
    }
  }
  for (size_t t = 0; t < tokens.num_tokens; ++t) {
    float* out = tokens.out + t * tokens.out_stride + row_begin;
    for (size_t r = 0; r < num_rows; ++r) out[r] = SumOf(scratch.sums[r][t]);
  }
}

void MultiplyBlocksOnTarget(const WeightRows& weights, size_t row_begin,
                            size_t row_end, const Tokens& tokens) {
  Scratch scratch;
  std::memset(scratch.panel, 0, sizeof(scratch.panel));
  for (size_t row = row_begin; row < row_end; row += kRowsPerBlock) {
    for (size_t t = 0; t < tokens.num_tokens; t += kBlockTokens) {
      MultiplyBlock(
          weights, row, HWY_MIN(kRowsPerBlock, row_end - row),
          tokens.Part(t, HWY_MIN(kBlockTokens, tokens.num_tokens - t)),
          scratch);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(MultiplyBlocksOnTarget);

void MultiplyBlocks(const WeightRows& weights, size_t row_begin, size_t row_end,
                    const Tokens& tokens) {
  HWY_DYNAMIC_DISPATCH(MultiplyBlocksOnTarget)
  (weights, row_begin, row_end, tokens);
}

}  // namespace lowmem
#endif  // HWY_ONCE
