// SPDX-License-Identifier: Apache-2.0
// Dot products of a few float rows with one vector, side by side. Compiled once
// per target. Stages always in this order: whole groups of 16 columns, the
// padded last group, the tree of sums.

#if defined(LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#undef LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// One row's sum is a chain of additions with a latency of 4 cycles, so rows are
// taken several at a time: as many as leave registers for the weights.
inline constexpr size_t kRowsAtOnce = kNumVecs <= 2 ? 4 : kNumVecs <= 4 ? 2 : 1;

// Rows are asked for this far ahead, which is the next rows where they are
// short (one Zen 5 thread, bf16 from memory, GB/s without it, with 1024, 2048
// and 4096: 576 columns 25, 30, 31, 30; 4864 columns 32, 32, 35, 30).
inline constexpr size_t kRowPrefetchBytes = 2048;

// acc[r] += 16 columns of row r times x[0, 16), by fused multiply-add.
template <class W, size_t kNumRows>
HWY_INLINE void AddGroup(const uint8_t* const (&rows)[kNumRows], size_t ofs,
                         const float* x, Lanes (&acc)[kNumRows]) {
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) {
    const FloatVec xv = hn::LoadU(FloatTag(), x + v * kVecLanes);
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) {
      const FloatVec w =
          W::Load(rows[r] + ofs + v * kVecLanes * W::kElementBytes);
      acc[r].vec[v] = hn::MulAdd(w, xv, acc[r].vec[v]);
    }
  }
}

// sums[r] = dot(row r, x).
template <class W, size_t kNumRows>
HWY_INLINE void DotGroupOfRows(const uint8_t* const (&rows)[kNumRows],
                               const float* x, size_t num_cols,
                               float (&sums)[kNumRows]) {
  Lanes acc[kNumRows];
  LOWMEM_UNROLL
  for (size_t r = 0; r < kNumRows; ++r) acc[r] = ZeroLanes();

  const size_t num_whole = num_cols - num_cols % kNumLanes;
  constexpr size_t kLineCols = kCacheLineBytes / W::kElementBytes;
  size_t col = 0;
  for (; col + kLineCols <= num_whole; col += kLineCols) {
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) {
      hwy::Prefetch(rows[r] + col * W::kElementBytes + kRowPrefetchBytes);
    }
    LOWMEM_UNROLL
    for (size_t i = col; i < col + kLineCols; i += kNumLanes) {
      AddGroup<W>(rows, i * W::kElementBytes, x + i, acc);
    }
  }
  for (; col < num_whole; col += kNumLanes) {
    AddGroup<W>(rows, col * W::kElementBytes, x + col, acc);
  }
  if (num_whole != num_cols) {
    const LastGroup<W, kNumRows> last(rows, num_whole, num_cols - num_whole);
    HWY_ALIGN float x_group[kNumLanes];
    CopyPadded(x + num_whole, num_cols - num_whole, x_group);
    AddGroup<W>(last.rows, 0, x_group, acc);
  }
  LOWMEM_UNROLL
  for (size_t r = 0; r < kNumRows; ++r) sums[r] = SumOfLanes(acc[r]);
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_ROW_GROUP_INL_H_
