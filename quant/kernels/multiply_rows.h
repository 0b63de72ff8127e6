// SPDX-License-Identifier: Apache-2.0
// Products of stored rows with several tokens. Every weight is decoded once for
// a block of tokens.

#ifndef LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_
#define LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_

#include <cstddef>

#include "quant/kernels/tokens.h"
#include "quant/matmul.h"

namespace lowmem {

// Ranges that begin at a multiple of this waste no work: whole tiles of every
// target.
inline constexpr size_t kRowsOfWholeTiles = 12;

// Floats that MultiplyRows works on, for any rows of up to num_cols columns and
// up to num_tokens tokens; never less for more of either. At most 121 KiB.
size_t MultiplyRowsScratch(size_t num_cols, size_t num_tokens);

// Dot products of rows row_begin <= r < row_end with all tokens, in the order
// of matmul.h. Chooses the instruction set once per call.
// REQUIRES: scratch holds MultiplyRowsScratch floats, on a cache line, for this
// call alone.
void MultiplyRows(const WeightRows& weights, size_t row_begin, size_t row_end,
                  const Tokens& tokens, float* scratch);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_MULTIPLY_ROWS_H_
