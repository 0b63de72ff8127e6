// SPDX-License-Identifier: Apache-2.0
#include "quant/kernels/dot_rows.h"

#include "quant/kernels/block_kernels.h"
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

void DotFloatRowsOnTarget(const WeightRows& weights, size_t row_begin,
                          size_t row_end, const float* x, float* out) {
  switch (weights.dtype) {
    case DType::kF32:
      return DotFloatRows<F32Weights>(weights, row_begin, row_end, x, out);
    case DType::kF16:
      return DotFloatRows<F16Weights>(weights, row_begin, row_end, x, out);
    default:
      return DotFloatRows<BF16Weights>(weights, row_begin, row_end, x, out);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(DotFloatRowsOnTarget);

void DotRows(const WeightRows& weights, size_t row_begin, size_t row_end,
             const float* x, float* out) {
  const RowDotter dot_blocks = KernelsOf(weights.dtype).dot_rows;
  if (dot_blocks != nullptr) {
    return dot_blocks(weights, row_begin, row_end, x, out);
  }
  HWY_DYNAMIC_DISPATCH(DotFloatRowsOnTarget)
  (weights, row_begin, row_end, x, out);
}

}  // namespace lowmem
#endif  // HWY_ONCE
