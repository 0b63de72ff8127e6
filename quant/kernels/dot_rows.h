// SPDX-License-Identifier: Apache-2.0
// Dot products of stored rows with one vector: what a generated token costs.

#ifndef LOWMEM_QUANT_KERNELS_DOT_ROWS_H_
#define LOWMEM_QUANT_KERNELS_DOT_ROWS_H_

#include <cstddef>

#include "quant/matmul.h"

namespace lowmem {

// out[r] = dot(weights row r, x) in the order of matmul.h, for row_begin <= r <
// row_end. Chooses the instruction set once per call.
// Memory: up to 4 KiB of stack.
// REQUIRES: row_begin < row_end.
void DotRows(const WeightRows& weights, size_t row_begin, size_t row_end,
             const float* x, float* out);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_DOT_ROWS_H_
