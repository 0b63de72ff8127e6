// SPDX-License-Identifier: Apache-2.0
// Dot products of stored rows with the vectors of many tokens: what a prompt costs.

#ifndef LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_
#define LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_

#include <cstddef>

#include "quant/matmul.h"

namespace lowmem {

// Ranges that begin at a multiple of this, and are long, waste no work.
inline constexpr size_t kRowsPerBlock = 20;

// out[t * out_stride + r] = dot(weights row r, x + t * x_stride) in the order of
// matmul.h, for row_begin <= r < row_end and t < num_tokens. Chooses the instruction
// set once per call.
// Memory: up to 200 KiB of stack.
void MultiplyRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const float* x, size_t x_stride, size_t num_tokens, float* out,
                  size_t out_stride);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_
