// SPDX-License-Identifier: Apache-2.0
// Columns are taken in panels: a panel of a tile's rows is decoded into the
// first-level cache and meets all tokens of a block, whose columns stay in the
// second-level cache for all tiles of the block of rows. Sums between panels
// are kept as 16 lanes, so the order of summation is the one of a single row.
#include "quant/kernels/multiply_rows.h"

#include <algorithm>
#include <cstring>

#include "quant/decode.h"
#include "quant/kernels/product_cut.h"
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

static_assert(kRowsOfWholeTiles % kTileRows == 0 &&
              kFewPanelsRows % kTileRows == 0 &&
              kManyPanelsRows % kTileRows == 0 && kTileRows <= kMaxTileRows &&
              kTileTokens <= kMaxTileTokens && kNumLanes == kLanesOfSum);

// A thread's work space, laid out in the floats it was given.
struct Scratch {
  Scratch(float* floats, const ProductCut& cut)
      : panel(floats),
        sums(reinterpret_cast<LaneSums*>(floats +
                                         kMaxTileRows * cut.panel_stride)) {}

  float* panel;    // [kTileRows, panel_stride]
  LaneSums* sums;  // [block_rows, block_tokens], or those of one tile
};

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
  AddTile<F32Weights, kNumTokens, kFromZero>(rows, 0, x, x_stride,
                                             num_whole / kNumLanes, sums);
  if (num_whole == num_cols) return;
  HWY_ALIGN float x_groups[kNumTokens][kNumLanes];
  for (size_t t = 0; t < kNumTokens; ++t) {
    CopyPadded(x + t * x_stride + num_whole, num_cols - num_whole, x_groups[t]);
  }
  AddTile<F32Weights, kNumTokens, false>(rows, num_whole, x_groups[0],
                                         kNumLanes, 1, sums);
}

// What a panel is in its rows.
struct Panel {
  size_t first_col;
  size_t num_cols;
  bool is_last;
};

// `sums` holds those of a tile for each tile of tokens, or those of one tile
// where the panel is a whole row.
template <bool kFromZero>
void MultiplyPanel(const uint8_t* const (&rows)[kTileRows], size_t num_rows,
                   const Panel& panel, const Tokens& tokens,
                   const NextPiece& next, LaneSums* sums) {
  const bool is_whole = kFromZero && panel.is_last;
  const size_t num_tiles = hwy::DivCeil(tokens.num_tokens, kTileTokens);
  ForEachTileOfTokens(tokens.num_tokens, [&](size_t t, auto count) HWY_ATTR {
    next.Prefetch(t * num_tiles / tokens.num_tokens, num_tiles);
    LaneSums* tile_sums = is_whole ? sums : sums + t * kTileRows;
    MultiplyTile<count(), kFromZero>(
        rows, tokens.x + t * tokens.x_stride + panel.first_col, tokens.x_stride,
        panel.num_cols, tile_sums);
    if (!panel.is_last) return;
    float totals[kTileRows * count()];
    AddAllLanes<kTileRows * count()>(tile_sums, totals);
    for (size_t i = 0; i < count(); ++i) {
      float* out = tokens.out + (t + i) * tokens.out_stride;
      const float* row_totals = totals + i * kTileRows;
      if (num_rows == kTileRows) {
        std::memcpy(out, row_totals, kTileRows * sizeof(float));
      } else {
        std::copy_n(row_totals, num_rows, out);
      }
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
                   const Tokens& tokens, const ProductCut& cut,
                   const Scratch& scratch) {
  float* panel_rows[kTileRows];
  const uint8_t* panel_bytes[kTileRows];
  for (size_t r = 0; r < kTileRows; ++r) {
    panel_rows[r] = scratch.panel + r * cut.panel_stride;
    panel_bytes[r] = reinterpret_cast<const uint8_t*>(panel_rows[r]);
  }
  const size_t panel_cols = cut.panel_cols;
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
                  panel_rows[r]);
        const size_t padding = (kNumLanes - num_cols % kNumLanes) % kNumLanes;
        std::memset(panel_rows[r] + num_cols, 0, padding * sizeof(float));
      }
      Tokens part = tokens;
      part.out += row;
      const NextPiece next =
          PieceAfter(weights, row, row_begin, row_end, panel, panel_cols);
      const auto multiply =
          col == 0 ? MultiplyPanel<true> : MultiplyPanel<false>;
      multiply(panel_bytes, num_rows, panel, part, next,
               scratch.sums + (row - row_begin) * cut.block_tokens);
    }
  }
}

void MultiplyRowsOnTarget(const WeightRows& weights, size_t row_begin,
                          size_t row_end, const Tokens& tokens, float* floats) {
  const ProductCut cut = CutOf(weights.num_cols, tokens.num_tokens, kTileRows);
  const Scratch scratch(floats, cut);
  // Rows that a last tile lacks are computed with, too.
  std::fill_n(scratch.panel, kTileRows * cut.panel_stride, 0.0f);
  for (size_t t = 0; t < tokens.num_tokens; t += cut.block_tokens) {
    const Tokens part =
        tokens.Part(t, HWY_MIN(cut.block_tokens, tokens.num_tokens - t));
    for (size_t row = row_begin; row < row_end; row += cut.block_rows) {
      MultiplyBlock(weights, row, HWY_MIN(row + cut.block_rows, row_end), part,
                    cut, scratch);
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

size_t MultiplyRowsScratch(size_t num_cols, size_t num_tokens) {
  return CutScratchFloats(num_cols, num_tokens);
}

void MultiplyRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const Tokens& tokens, float* scratch) {
  HWY_DYNAMIC_DISPATCH(MultiplyRowsOnTarget)
  (weights, row_begin, row_end, tokens, scratch);
}

}  // namespace lowmem
#endif  // HWY_ONCE
