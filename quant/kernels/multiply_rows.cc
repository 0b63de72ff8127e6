// SPDX-License-Identifier: Apache-2.0
// A block of rows times a block of tokens, columns taken in panels: a panel of a few
// rows is decoded once into the first-level cache and meets all tokens of the block,
// whose columns of that panel stay in the second-level cache. Sums between panels
// are kept as 16 lanes, so the order of summation is the one of a single row.
#include "quant/kernels/multiply_rows.h"

#include "quant/decode.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/multiply_rows.cc"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// A tile's sums, one vector each, and one vector per row must fit the registers: 32
// of them (AVX3, NEON) or 16.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr size_t kTileRows = 5;
inline constexpr size_t kTileTokens = 5;
#else
inline constexpr size_t kTileRows = 3;
inline constexpr size_t kTileTokens = 4;
#endif

// 20 KiB for five rows, which leaves room in 32 KiB for the tokens' columns.
inline constexpr size_t kPanelCols = 1024;
// One group more than used: rows a multiple of 4 KiB apart would share cache sets.
inline constexpr size_t kPanelStride = kPanelCols + kNumLanes;
inline constexpr size_t kBlockTokens = 128;

struct Scratch {
  HWY_ALIGN float panel[kTileRows * kPanelStride];
  HWY_ALIGN float sums[kRowsPerBlock + kTileRows][kBlockTokens][kNumLanes];
  HWY_ALIGN float x_ends[kBlockTokens][kNumLanes];
};

// sums[r][t] += panel row r times x row t over num_groups groups of 16 columns.
// One vector of the 16 lanes at a time, so that a tile is as large as it can be.
template <size_t kNumTokens>
HWY_INLINE void MultiplyTile(const float* panel, const float* x, size_t x_stride,
                             size_t num_groups, size_t first_token,
                             float (*sums)[kBlockTokens][kNumLanes]) {
  const FloatTag d;
  for (size_t ofs = 0; ofs < kNumLanes; ofs += kVecLanes) {
    FloatVec acc[kTileRows][kNumTokens];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kTileRows; ++r) {
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        acc[r][t] = hn::Load(d, sums[r][first_token + t] + ofs);
      }
    }
    const size_t end = num_groups * kNumLanes + ofs;
    for (size_t col = ofs; col < end; col += kNumLanes) {
      FloatVec w[kTileRows];
      LOWMEM_UNROLL
      for (size_t r = 0; r < kTileRows; ++r) {
        w[r] = hn::Load(d, panel + r * kPanelStride + col);
      }
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        const FloatVec xv = hn::LoadU(d, x + t * x_stride + col);
        LOWMEM_UNROLL
        for (size_t r = 0; r < kTileRows; ++r) {
          acc[r][t] = hn::MulAdd(w[r], xv, acc[r][t]);
        }
      }
    }
    LOWMEM_UNROLL
    for (size_t r = 0; r < kTileRows; ++r) {
      LOWMEM_UNROLL
      for (size_t t = 0; t < kNumTokens; ++t) {
        hn::Store(acc[r][t], d, sums[r][first_token + t] + ofs);
      }
    }
  }
}

// All tokens of a block with one panel, in tiles.
void MultiplyPanel(const float* panel, const float* x, size_t x_stride,
                   size_t num_groups, size_t num_tokens,
                   float (*sums)[kBlockTokens][kNumLanes]) {
  size_t t = 0;
  for (; t + kTileTokens <= num_tokens; t += kTileTokens) {
    MultiplyTile<kTileTokens>(panel, x + t * x_stride, x_stride, num_groups, t,
                              sums);
  }
  for (; t + 2 <= num_tokens; t += 2) {
    MultiplyTile<2>(panel, x + t * x_stride, x_stride, num_groups, t, sums);
  }
  if (t < num_tokens) {
    MultiplyTile<1>(panel, x + t * x_stride, x_stride, num_groups, t, sums);
  }
}

template <class W>
HWY_INLINE void DecodeFloats(const uint8_t* src, size_t num_cols, float* dst) {
  const FloatTag d;
  size_t col = 0;
  for (; col + kVecLanes <= num_cols; col += kVecLanes) {
    hn::Store(W::Load(src + col * W::kElementBytes), d, dst + col);
  }
  if (col == num_cols) return;
  uint8_t end[kVecLanes * W::kElementBytes] = {};
  std::memcpy(end, src + col * W::kElementBytes,
              (num_cols - col) * W::kElementBytes);
  hn::Store(W::Load(end), d, dst + col);
}

// One row's columns [col, col + num_cols), then zeros to a whole group.
void DecodeToPanel(const WeightRows& weights, size_t row, size_t col,
                   size_t num_cols, float* dst) {
  const DTypeTraits& traits = TraitsOf(weights.dtype);
  const uint8_t* src = weights.data + row * weights.row_bytes +
                       col / traits.block_elements * traits.block_bytes;
  const size_t last_group = num_cols - num_cols % kNumLanes;
  if (last_group != num_cols) {
    std::memset(dst + last_group, 0, kNumLanes * sizeof(float));
  }
  switch (weights.dtype) {
    case DType::kF32:
      return DecodeFloats<F32Weights>(src, num_cols, dst);
    case DType::kF16:
      return DecodeFloats<F16Weights>(src, num_cols, dst);
    case DType::kBF16:
      return DecodeFloats<BF16Weights>(src, num_cols, dst);
    default:
      return DecodeRow(weights.dtype, src, num_cols, dst);
  }
}

void MultiplyBlock(const WeightRows& weights, size_t row_begin, size_t num_rows,
                   const float* x, size_t x_stride, size_t num_tokens, float* out,
                   size_t out_stride, Scratch& scratch) {
  const size_t num_left = weights.num_cols % kNumLanes;
  const size_t num_whole = weights.num_cols - num_left;
  if (num_left != 0) {
    for (size_t t = 0; t < num_tokens; ++t) {
      CopyPadded(x + t * x_stride + num_whole, num_left, scratch.x_ends[t]);
    }
  }
  for (size_t r = 0; r < num_rows + kTileRows; ++r) {
    std::memset(scratch.sums[r], 0, num_tokens * sizeof(scratch.sums[r][0]));
  }
  for (size_t col = 0; col < weights.num_cols; col += kPanelCols) {
    const size_t num_cols = HWY_MIN(kPanelCols, weights.num_cols - col);
    for (size_t row = 0; row < num_rows; row += kTileRows) {
      for (size_t r = 0; r < kTileRows && row + r < num_rows; ++r) {
        DecodeToPanel(weights, row_begin + row + r, col, num_cols,
                      scratch.panel + r * kPanelStride);
      }
      // A tile cut short by the end of the rows computes with what the panel held
      // before; nobody reads those sums.
      MultiplyPanel(scratch.panel, x + col, x_stride, num_cols / kNumLanes,
                    num_tokens, scratch.sums + row);
      if (num_cols % kNumLanes != 0) {
        MultiplyPanel(scratch.panel + num_whole - col, scratch.x_ends[0],
                      kNumLanes, 1, num_tokens, scratch.sums + row);
      }
    }
  }
  for (size_t t = 0; t < num_tokens; ++t) {
    for (size_t r = 0; r < num_rows; ++r) {
      Lanes lanes;
      LOWMEM_UNROLL
      for (size_t v = 0; v < kNumVecs; ++v) {
        lanes.vec[v] =
            hn::Load(FloatTag(), scratch.sums[r][t] + v * kVecLanes);
      }
      out[t * out_stride + row_begin + r] = SumOfLanes(lanes);
    }
  }
}

void MultiplyRowsOnTarget(const WeightRows& weights, size_t row_begin,
                          size_t row_end, const float* x, size_t x_stride,
                          size_t num_tokens, float* out, size_t out_stride) {
  Scratch scratch;
  std::memset(scratch.panel, 0, sizeof(scratch.panel));
  for (size_t row = row_begin; row < row_end; row += kRowsPerBlock) {
    const size_t num_rows = HWY_MIN(kRowsPerBlock, row_end - row);
    for (size_t t = 0; t < num_tokens; t += kBlockTokens) {
      MultiplyBlock(weights, row, num_rows, x + t * x_stride, x_stride,
                    HWY_MIN(kBlockTokens, num_tokens - t), out + t * out_stride,
                    out_stride, scratch);
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
                  const float* x, size_t x_stride, size_t num_tokens, float* out,
                  size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(MultiplyRowsOnTarget)
  (weights, row_begin, row_end, x, x_stride, num_tokens, out, out_stride);
}

}  // namespace lowmem
#endif  // HWY_ONCE
