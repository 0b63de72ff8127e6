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

// A group's sums must fit the registers beside the weights of its rows: 32 registers
// (AVX3, NEON) or 16. One row's sum is a chain of additions with a latency of 4
// cycles, so a single token also wants several rows.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr size_t kSumVecs = 20;
#else
inline constexpr size_t kSumVecs = 12;
#endif
constexpr size_t RowsAtOnce(size_t num_tokens) {
  return HWY_MAX(1, HWY_MIN(4, kSumVecs / (num_tokens * kNumVecs)));
}
// As many tokens as leave two rows.
inline constexpr size_t kTokensAtOnce =
    HWY_MAX(1, HWY_MIN(5, kSumVecs / (2 * kNumVecs)));

struct Tokens {
  const float* x;
  size_t x_stride;
  size_t num_tokens;
  float* out;
  size_t out_stride;
};

template <class W, size_t kNumTokens, size_t kNumRows>
HWY_INLINE void DotTokens(const WeightRows& weights,
                          const size_t (&row_idx)[kNumRows], const Tokens& tokens,
                          size_t first_token) {
  const uint8_t* rows[kNumRows];
  for (size_t r = 0; r < kNumRows; ++r) {
    rows[r] = weights.data + row_idx[r] * weights.row_bytes;
  }
  float sums[kNumRows][kNumTokens];
  DotGroupOfRows<W>(rows, tokens.x + first_token * tokens.x_stride,
                    tokens.x_stride, weights.num_cols, sums);
  for (size_t r = 0; r < kNumRows; ++r) {
    for (size_t t = 0; t < kNumTokens; ++t) {
      tokens.out[(first_token + t) * tokens.out_stride + row_idx[r]] = sums[r][t];
    }
  }
}

// All tokens with one group of rows, whose bytes stay in the inner caches.
template <class W, size_t kNumRows>
HWY_INLINE void DotAllTokens(const WeightRows& weights,
                             const size_t (&row_idx)[kNumRows],
                             const Tokens& tokens) {
  size_t t = 0;
  if constexpr (kTokensAtOnce > 1) {
    for (; t + kTokensAtOnce <= tokens.num_tokens; t += kTokensAtOnce) {
      DotTokens<W, kTokensAtOnce>(weights, row_idx, tokens, t);
    }
  }
  if constexpr (kTokensAtOnce > 2) {
    for (; t + 2 <= tokens.num_tokens; t += 2) {
      DotTokens<W, 2>(weights, row_idx, tokens, t);
    }
  }
  for (; t < tokens.num_tokens; ++t) {
    DotTokens<W, 1>(weights, row_idx, tokens, t);
  }
}

// Rows walked together are a fraction of the range apart: neighbouring rows would
// share DRAM pages and prefetch streams, which halves the bandwidth.
template <class W, size_t kNumRows>
void DotDistantRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                    const Tokens& tokens) {
  const size_t distance = (row_end - row_begin) / kNumRows;
  for (size_t i = 0; i < distance; ++i) {
    size_t row_idx[kNumRows];
    for (size_t r = 0; r < kNumRows; ++r) {
      row_idx[r] = row_begin + r * distance + i;
    }
    DotAllTokens<W>(weights, row_idx, tokens);
  }
  for (size_t row = row_begin + kNumRows * distance; row < row_end; ++row) {
    DotAllTokens<W>(weights, {row}, tokens);
  }
}

template <class W>
void DotFloatRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const Tokens& tokens) {
  if (tokens.num_tokens == 1) {
    DotDistantRows<W, RowsAtOnce(1)>(weights, row_begin, row_end, tokens);
  } else {
    DotDistantRows<W, RowsAtOnce(kTokensAtOnce)>(weights, row_begin, row_end,
                                                 tokens);
  }
}

// Block types: decoded piece by piece into the first-level cache.
void DotBlockRow(const WeightRows& weights, size_t row, const float* x,
                 float* out) {
  constexpr size_t kPieceCols = 512;  // whole blocks of every type
  const DTypeTraits& traits = TraitsOf(weights.dtype);
  HWY_ALIGN float piece[kPieceCols];
  const uint8_t* pieces[1];
  pieces[0] = reinterpret_cast<const uint8_t*>(piece);
  Lanes acc[1][1] = {{ZeroLanes()}};
  for (size_t col = 0; col < weights.num_cols; col += kPieceCols) {
    const size_t num_cols = HWY_MIN(kPieceCols, weights.num_cols - col);
    DecodeRow(weights.dtype,
              weights.data + row * weights.row_bytes +
                  col / traits.block_elements * traits.block_bytes,
              num_cols, piece);
    for (size_t i = 0; i < num_cols; i += kNumLanes) {
      AddGroup<F32Weights>(pieces, i * sizeof(float), x + col + i, 0, acc);
    }
  }
  *out = SumOfLanes(acc[0][0]);
}

void DotRowsOnTarget(const WeightRows& weights, size_t row_begin, size_t row_end,
                     const float* x, size_t x_stride, size_t num_tokens,
                     float* out, size_t out_stride) {
  const Tokens tokens{x, x_stride, num_tokens, out, out_stride};
  switch (weights.dtype) {
    case DType::kF32:
      return DotFloatRows<F32Weights>(weights, row_begin, row_end, tokens);
    case DType::kF16:
      return DotFloatRows<F16Weights>(weights, row_begin, row_end, tokens);
    case DType::kBF16:
      return DotFloatRows<BF16Weights>(weights, row_begin, row_end, tokens);
    default:
      for (size_t row = row_begin; row < row_end; ++row) {
        for (size_t t = 0; t < num_tokens; ++t) {
          DotBlockRow(weights, row, x + t * x_stride, out + t * out_stride + row);
        }
      }
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
             const float* x, size_t x_stride, size_t num_tokens, float* out,
             size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(DotRowsOnTarget)
  (weights, row_begin, row_end, x, x_stride, num_tokens, out, out_stride);
}

}  // namespace lowmem
#endif  // HWY_ONCE
