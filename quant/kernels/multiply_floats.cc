// SPDX-License-Identifier: Apache-2.0
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
  LaneSums sums[kTileRows * kNumTokens];
  const float* x = tokens.x + first * tokens.x_stride;
  const size_t num_left = weights.num_cols % kNumLanes;
  const size_t num_whole = weights.num_cols - num_left;
  const size_t first_cols = HWY_MIN(kColsAtOnce, num_whole);
  AddTile<W, kNumTokens, true>(rows, 0, x, tokens.x_stride,
                               first_cols / kNumLanes, sums);
  for (size_t col = first_cols; col < num_whole; col += kColsAtOnce) {
    AddTile<W, kNumTokens, false>(
        rows, col, x + col, tokens.x_stride,
        HWY_MIN(kColsAtOnce, num_whole - col) / kNumLanes, sums);
  }
  if (num_left != 0) {
    const LastGroup<W, kTileRows> last(rows, num_whole, num_left);
    HWY_ALIGN float x_groups[kNumTokens][kNumLanes];
    for (size_t t = 0; t < kNumTokens; ++t) {
      CopyPadded(x + t * tokens.x_stride + num_whole, num_left, x_groups[t]);
    }
    AddTile<W, kNumTokens, false>(last.rows, 0, x_groups[0], kNumLanes, 1,
                                  sums);
  }
  float totals[kTileRows * kNumTokens];
  AddAllLanes<kTileRows * kNumTokens>(sums, totals);
  float* out = tokens.out + first * tokens.out_stride;
  for (size_t t = 0; t < kNumTokens; ++t) {
    for (size_t r = 0; r < kTileRows; ++r) {
      out[t * tokens.out_stride + row_idx[r]] = totals[t * kTileRows + r];
    }
  }
}

// A tile's rows are a fraction of the range apart, as in dot_rows.cc: few
// tokens are bound by memory too. The last row stands in for those that a
// fraction lacks.
template <class W>
void MultiplyFloatRows(const WeightRows& weights, size_t row_begin,
                       size_t row_end, const Tokens& tokens) {
  const size_t distance = hwy::DivCeil(row_end - row_begin, kTileRows);
  for (size_t i = 0; i < distance; ++i) {
    size_t row_idx[kTileRows];
    for (size_t r = 0; r < kTileRows; ++r) {
      row_idx[r] = HWY_MIN(row_begin + r * distance + i, row_end - 1);
    }
    ForEachTileOfTokens(tokens.num_tokens, [&](size_t t, auto count) HWY_ATTR {
      MultiplyTile<W, count()>(weights, row_idx, tokens, t);
    });
  }
}

void MultiplyFloatsOnTarget(const WeightRows& weights, size_t row_begin,
                            size_t row_end, const Tokens& tokens) {
  switch (weights.dtype) {
    case DType::kF16:
      return MultiplyFloatRows<F16Weights>(weights, row_begin, row_end, tokens);
    case DType::kBF16:
      return MultiplyFloatRows<BF16Weights>(weights, row_begin, row_end,
                                            tokens);
    default:
      return MultiplyFloatRows<F32Weights>(weights, row_begin, row_end, tokens);
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
