// SPDX-License-Identifier: Apache-2.0
// Columns are taken in panels: a panel of a tile's rows is decoded into the
// first-level cache and meets all tokens of a block, whose columns stay in the
// second-level cache for all tiles of the block of rows. Sums between panels
// are kept as 16 lanes, so the order of summation is the one of a single row.
#include "quant/kernels/multiply_rows.h"

#include <cstring>

#include "quant/decode.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/multiply_rows.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Six rows and the columns of four tokens take 30 KiB of the first-level cache.
// Shorter panels cost more in sums that come and go, longer ones in misses (one
// Zen 5 thread, bf16, GFLOP/s with 512, 768, 1024: 896 columns -, 204, 213;
// 4864 columns 189, 207, 201).
inline constexpr size_t kMaxPanelCols = 768;
// Panels begin where blocks of every type do.
inline constexpr size_t kPanelUnitCols = 256;
// One group more than used: rows a multiple of 4 KiB apart would share cache
// sets.
inline constexpr size_t kPanelStride = kMaxPanelCols + kNumLanes;
inline constexpr size_t kBlockTokens = 128;
static_assert(kRowsPerBlock % kTileRows == 0);

struct Scratch {
  HWY_ALIGN float panel[kTileRows][kPanelStride];
  LaneSums sums[kRowsPerBlock][kBlockTokens];
};

// Columns of a panel, all panels of a row being about as wide.
inline size_t PanelCols(size_t num_cols) {
  const size_t num_panels = hwy::DivCeil(num_cols, kMaxPanelCols);
  return hwy::RoundUpTo(hwy::DivCeil(num_cols, num_panels), kPanelUnitCols);
}

// Bytes of rows that are decoded next: the processor sees no stream in pieces
// of rows, and asked for all at once it would stand still.
struct NextPiece {
  const uint8_t* src;
  size_t row_bytes;
  size_t num_rows;
  size_t piece_bytes;

  // Asks for part `part_idx` of num_parts.
  HWY_INLINE void Prefetch(size_t part_idx, size_t num_parts) const {
    const size_t lines = hwy::DivCeil(piece_bytes, kCacheLineBytes);
    const size_t end = (part_idx + 1) * lines / num_parts;
    for (size_t line = part_idx * lines / num_parts; line < end; ++line) {
      for (size_t r = 0; r < num_rows; ++r) {
        hwy::Prefetch(src + r * row_bytes + line * kCacheLineBytes);
      }
    }
  }
};

// A tile and `num_cols` columns, the last group of them padded.
template <size_t kNumTokens, bool kFromZero>
HWY_INLINE void MultiplyTile(const uint8_t* const (&rows)[kTileRows],
                             const float* x, size_t x_stride, size_t num_cols,
                             LaneSums* sums) {
  const size_t num_whole = num_cols - num_cols % kNumLanes;
  AddTile<F32Weights, kNumTokens, kFromZero>(
      rows, 0, x, x_stride, num_whole / kNumLanes, sums, kBlockTokens);
  if (num_whole == num_cols) return;
  HWY_ALIGN float x_groups[kNumTokens][kNumLanes];
  for (size_t t = 0; t < kNumTokens; ++t) {
    CopyPadded(x + t * x_stride + num_whole, num_cols - num_whole, x_groups[t]);
  }
  AddTile<F32Weights, kNumTokens, false>(rows, num_whole, x_groups[0],
                                         kNumLanes, 1, sums, kBlockTokens);
}

// What a panel is in its rows.
struct Panel {
  size_t first_col;
  size_t num_cols;
  bool is_last;
};

template <bool kFromZero>
void MultiplyPanel(const uint8_t* const (&rows)[kTileRows], size_t num_rows,
                   const Panel& panel, const Tokens& tokens,
                   const NextPiece& next, LaneSums* sums) {
  ForEachTileOfTokens(tokens.num_tokens, [&](size_t t, auto count) HWY_ATTR {
    next.Prefetch(t / kTileTokens,
                  hwy::DivCeil(tokens.num_tokens, kTileTokens));
    MultiplyTile<count(), kFromZero>(
        rows, tokens.x + t * tokens.x_stride + panel.first_col, tokens.x_stride,
        panel.num_cols, sums + t);
    if (!panel.is_last) return;
    for (size_t r = 0; r < num_rows; ++r) {
      WriteSums<count()>(sums + r * kBlockTokens + t,
                         tokens.out + t * tokens.out_stride + r,
                         tokens.out_stride);
    }
  });
}

inline size_t BytesOf(const WeightRows& weights, size_t num_cols) {
  const DTypeTraits& traits = TraitsOf(weights.dtype);
  return num_cols / traits.block_elements * traits.block_bytes;
}

// What comes after the tile at `row` of the block [row_begin, row_end): the
// next tile, the next panel, or the next block.
inline NextPiece PieceAfter(const WeightRows& weights, size_t row,
                            size_t row_begin, size_t row_end,
                            const Panel& panel, size_t panel_cols) {
  size_t col = panel.first_col;
  if (row + kTileRows < row_end) {
    row += kTileRows;
  } else if (!panel.is_last) {
    row = row_begin;
    col += panel_cols;
  } else {
    row = row_end;
    col = 0;
  }
  const size_t num_cols = HWY_MIN(panel_cols, weights.num_cols - col);
  return {weights.data + row * weights.row_bytes + BytesOf(weights, col),
          weights.row_bytes, HWY_MIN(kTileRows, weights.num_rows - row),
          BytesOf(weights, num_cols)};
}

void MultiplyBlock(const WeightRows& weights, size_t row_begin, size_t row_end,
                   const Tokens& tokens, Scratch& scratch) {
  const uint8_t* panel_rows[kTileRows];
  for (size_t r = 0; r < kTileRows; ++r) {
    panel_rows[r] = reinterpret_cast<const uint8_t*>(scratch.panel[r]);
  }
  const size_t panel_cols = PanelCols(weights.num_cols);
  for (size_t col = 0; col < weights.num_cols; col += panel_cols) {
    const size_t num_cols = HWY_MIN(panel_cols, weights.num_cols - col);
    const Panel panel = {col, num_cols, col + num_cols == weights.num_cols};
    for (size_t row = row_begin; row < row_end; row += kTileRows) {
      const size_t num_rows = HWY_MIN(kTileRows, row_end - row);
      const uint8_t* src =
          weights.data + row * weights.row_bytes + BytesOf(weights, col);
      // A tile cut short by the end of the rows computes with what the panel
      // held before; nobody reads those sums.
      for (size_t r = 0; r < num_rows; ++r) {
        DecodeRow(weights.dtype, src + r * weights.row_bytes, num_cols,
                  scratch.panel[r]);
        const size_t padding = (kNumLanes - num_cols % kNumLanes) % kNumLanes;
        std::memset(scratch.panel[r] + num_cols, 0, padding * sizeof(float));
      }
      Tokens part = tokens;
      part.out += row;
      const NextPiece next =
          PieceAfter(weights, row, row_begin, row_end, panel, panel_cols);
      const auto multiply =
          col == 0 ? MultiplyPanel<true> : MultiplyPanel<false>;
      multiply(panel_rows, num_rows, panel, part, next,
               scratch.sums[row - row_begin]);
    }
  }
}

void MultiplyRowsOnTarget(const WeightRows& weights, size_t row_begin,
                          size_t row_end, const Tokens& tokens) {
  Scratch scratch;
  std::memset(scratch.panel, 0, sizeof(scratch.panel));
  for (size_t row = row_begin; row < row_end; row += kRowsPerBlock) {
    for (size_t t = 0; t < tokens.num_tokens; t += kBlockTokens) {
      MultiplyBlock(
          weights, row, HWY_MIN(row + kRowsPerBlock, row_end),
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

HWY_EXPORT(MultiplyRowsOnTarget);

void MultiplyRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const Tokens& tokens) {
  HWY_DYNAMIC_DISPATCH(MultiplyRowsOnTarget)
  (weights, row_begin, row_end, tokens);
}

}  // namespace lowmem
#endif  // HWY_ONCE
