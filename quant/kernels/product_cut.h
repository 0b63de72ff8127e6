// SPDX-License-Identifier: Apache-2.0
// How multiply_rows.cc cuts a product into panels of columns and blocks of rows
// and tokens, and what work space that takes: the same on every target.

#ifndef LOWMEM_QUANT_KERNELS_PRODUCT_CUT_H_
#define LOWMEM_QUANT_KERNELS_PRODUCT_CUT_H_

#include <algorithm>
#include <cstddef>

namespace lowmem {

// No target has larger tiles.
inline constexpr size_t kMaxTileRows = 6;
inline constexpr size_t kMaxTileTokens = 4;
inline constexpr size_t kLanesOfSum = 16;

// Six rows and the columns of four tokens take 40 KiB of the first-level cache.
// A panel more costs sums that come and go: 128 tokens of 896 columns, bf16,
// one thread, GFLOP/s with 768 and 1024: Zen 5 204, 213; Sapphire Rapids 126,
// 140.
inline constexpr size_t kMaxPanelCols = 1024;
// Panels begin where blocks of every type do.
inline constexpr size_t kPanelUnitCols = 256;

// The columns of a block's tokens come from the second-level cache. Those of
// one panel stay there for all rows. Of more panels they are brought in anew by
// every block of rows, so that it should have many: fewer tokens leave room for
// their sums (Sapphire Rapids, 128 tokens of 4864 columns, GFLOP/s: 12 rows of
// 128 tokens 101, 24 of 64 123, 24 of 128 124, 48 of 128 121).
inline constexpr size_t kOnePanelTokens = 128;
inline constexpr size_t kFewPanels = 2;
inline constexpr size_t kFewPanelsRows = 12;
inline constexpr size_t kManyPanelsRows = 24;
inline constexpr size_t kMaxSums = 1536;

struct ProductCut {
  size_t panel_cols;
  size_t panel_stride;  // in floats, from one decoded row to the next
  size_t block_rows;
  size_t block_tokens;
};

// REQUIRES: no argument is 0; tile_rows divides the rows of a block.
inline ProductCut CutOf(size_t num_cols, size_t num_tokens, size_t tile_rows) {
  const size_t num_panels = (num_cols + kMaxPanelCols - 1) / kMaxPanelCols;
  // All panels of a row are about as wide.
  const size_t unit = num_panels * kPanelUnitCols;
  ProductCut cut;
  cut.panel_cols = (num_cols + unit - 1) / unit * kPanelUnitCols;
  // One group more than used: rows a multiple of 4 KiB apart would share cache
  // sets.
  cut.panel_stride = cut.panel_cols + kLanesOfSum;
  if (num_panels == 1) {
    cut.block_rows = tile_rows;
    cut.block_tokens = kOnePanelTokens;
  } else {
    cut.block_rows =
        num_panels <= kFewPanels ? kFewPanelsRows : kManyPanelsRows;
    cut.block_tokens = kMaxSums / cut.block_rows;
  }
  cut.block_tokens = std::min(cut.block_tokens, num_tokens);
  return cut;
}

// Floats for the decoded rows of a panel and, behind them, the sums of a block,
// or of one tile where a panel is a whole row: enough for every product with up
// to num_cols columns and up to num_tokens tokens, on every target.
inline size_t CutScratchFloats(size_t num_cols, size_t num_tokens) {
  const size_t whole_cols =
      (num_cols + kPanelUnitCols - 1) / kPanelUnitCols * kPanelUnitCols;
  const size_t panel_cols = std::min(whole_cols, kMaxPanelCols);
  size_t num_sums = kMaxTileRows * kMaxTileTokens;
  if (num_cols > kMaxPanelCols) {
    num_sums =
        std::max(num_sums, std::min(kManyPanelsRows * num_tokens, kMaxSums));
  }
  return (kMaxTileRows * (panel_cols / kLanesOfSum + 1) + num_sums) *
         kLanesOfSum;
}

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_PRODUCT_CUT_H_
