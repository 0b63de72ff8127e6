// SPDX-License-Identifier: Apache-2.0
// Dot products of a few float rows with a few vectors, side by side. Compiled once per
// target. Stages always in this order: whole groups of 16 columns, the padded last
// group, the tree of sums.

#if defined(LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#undef LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// acc[r][t] += 16 columns of row r times 16 of token t, by fused multiply-add.
template <class W, size_t kNumRows, size_t kNumTokens>
HWY_INLINE void AddGroup(const uint8_t* const (&rows)[kNumRows], size_t ofs,
                         const float* x, size_t x_stride,
                         Lanes (&acc)[kNumRows][kNumTokens]) {
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) {
    FloatVec w[kNumRows];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) {
      w[r] = W::Load(rows[r] + ofs + v * kVecLanes * W::kElementBytes);
    }
    LOWMEM_UNROLL
    for (size_t t = 0; t < kNumTokens; ++t) {
      const FloatVec xv = hn::LoadU(FloatTag(), x + t * x_stride + v * kVecLanes);
      LOWMEM_UNROLL
      for (size_t r = 0; r < kNumRows; ++r) {
        acc[r][t].vec[v] = hn::MulAdd(w[r], xv, acc[r][t].vec[v]);
      }
    }
  }
}

// sums[r][t] = dot(row r, x + t * x_stride).
template <class W, size_t kNumRows, size_t kNumTokens>
HWY_INLINE void DotGroupOfRows(const uint8_t* const (&rows)[kNumRows],
                               const float* x, size_t x_stride, size_t num_cols,
                               float (&sums)[kNumRows][kNumTokens]) {
  Lanes acc[kNumRows][kNumTokens];
  LOWMEM_UNROLL
  for (size_t r = 0; r < kNumRows; ++r) {
    LOWMEM_UNROLL
    for (size_t t = 0; t < kNumTokens; ++t) acc[r][t] = ZeroLanes();
  }
  const size_t num_whole = num_cols - num_cols % kNumLanes;
  for (size_t col = 0; col < num_whole; col += kNumLanes) {
    AddGroup<W>(rows, col * W::kElementBytes, x + col, x_stride, acc);
  }
  const size_t num_left = num_cols - num_whole;
  if (num_left != 0) {
    HWY_ALIGN float x_groups[kNumTokens][kNumLanes];
    for (size_t t = 0; t < kNumTokens; ++t) {
      CopyPadded(x + t * x_stride + num_whole, num_left, x_groups[t]);
    }
    uint8_t row_groups[kNumRows][kNumLanes * W::kElementBytes] = {};
    const uint8_t* groups[kNumRows];
    for (size_t r = 0; r < kNumRows; ++r) {
      std::memcpy(row_groups[r], rows[r] + num_whole * W::kElementBytes,
                  num_left * W::kElementBytes);
      groups[r] = row_groups[r];
    }
    AddGroup<W>(groups, 0, x_groups[0], kNumLanes, acc);
  }
  LOWMEM_UNROLL
  for (size_t r = 0; r < kNumRows; ++r) {
    LOWMEM_UNROLL
    for (size_t t = 0; t < kNumTokens; ++t) sums[r][t] = SumOfLanes(acc[r][t]);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
