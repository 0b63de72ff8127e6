// SPDX-License-Identifier: Apache-2.0
#include "quant/kernels/dot_rows.h"

#include "quant/decode.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/dot_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/row_group-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Rows walked together are a fraction of the range apart: neighbouring rows
// would share DRAM pages and prefetch streams, which halves the bandwidth. The
// last row stands in for those that a fraction lacks.
template <class W>
void DotFloatRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const float* x, float* out) {
  const size_t distance = hwy::DivCeil(row_end - row_begin, kRowsAtOnce);
  for (size_t i = 0; i < distance; ++i) {
    size_t row_idx[kRowsAtOnce];
    const uint8_t* rows[kRowsAtOnce];
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      row_idx[r] = HWY_MIN(row_begin + r * distance + i, row_end - 1);
      rows[r] = weights.data + row_idx[r] * weights.row_bytes;
    }
    float sums[kRowsAtOnce];
    DotGroupOfRows<W>(rows, x, weights.num_cols, sums);
    for (size_t r = 0; r < kRowsAtOnce; ++r) out[row_idx[r]] = sums[r];
  }
}

// Block types: decoded piece by piece into the first-level cache.
void DotBlockRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const float* x, float* out) {
  constexpr size_t kPieceCols = 512;  // whole blocks of every type
  const DTypeTraits& traits = TraitsOf(weights.dtype);
  HWY_ALIGN float piece[kPieceCols];
  const uint8_t* const rows[1] = {reinterpret_cast<const uint8_t*>(piece)};
  for (size_t row = row_begin; row < row_end; ++row) {
    const uint8_t* src = weights.data + row * weights.row_bytes;
    Lanes acc[1] = {ZeroLanes()};
    for (size_t col = 0; col < weights.num_cols; col += kPieceCols) {
      const size_t num_cols = HWY_MIN(kPieceCols, weights.num_cols - col);
      DecodeRow(weights.dtype,
                src + col / traits.block_elements * traits.block_bytes,
                num_cols, piece);
      for (size_t i = 0; i < num_cols; i += kNumLanes) {
        AddGroup<F32Weights>(rows, i * sizeof(float), x + col + i, acc);
      }
    }
    out[row] = SumOfLanes(acc[0]);
  }
}

void DotRowsOnTarget(const WeightRows& weights, size_t row_begin,
                     size_t row_end, const float* x, float* out) {
  switch (weights.dtype) {
    case DType::kF32:
      return DotFloatRows<F32Weights>(weights, row_begin, row_end, x, out);
    case DType::kF16:
      return DotFloatRows<F16Weights>(weights, row_begin, row_end, x, out);
    case DType::kBF16:
      return DotFloatRows<BF16Weights>(weights, row_begin, row_end, x, out);
    default:
      return DotBlockRows(weights, row_begin, row_end, x, out);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(DotRowsOnTarget);

void DotRows(const WeightRows& weights, size_t row_begin, size_t row_end,
             const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(DotRowsOnTarget)(weights, row_begin, row_end, x, out);
}

}  // namespace lowmem
#endif  // HWY_ONCE
