// SPDX-License-Identifier: Apache-2.0
// Dot products of stored rows with one vector or a few: what a generated token
// costs. Weights are read as a stream and decoded in registers.

#ifndef LOWMEM_QUANT_KERNELS_DOT_ROWS_H_
#define LOWMEM_QUANT_KERNELS_DOT_ROWS_H_

#include <cstddef>

#include "quant/matmul.h"

namespace lowmem {

// Up to so many tokens this is faster than MultiplyRows for floats (measured with
// bench/quant/matmul_bench). Block types are better decoded once for all tokens.
inline constexpr size_t kMaxDirectTokens = 8;

// out[t * out_stride + r] = dot(weights row r, x + t * x_stride) in the order of
// matmul.h, for row_begin <= r < row_end and t < num_tokens. Chooses the instruction
// set once per call.
// Memory: up to 4 KiB of stack.
void DotRows(const WeightRows& weights, size_t row_begin, size_t row_end,
             const float* x, size_t x_stride, size_t num_tokens, float* out,
             size_t out_stride);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_DOT_ROWS_H_
