// SPDX-License-Identifier: Apache-2.0
// Products of rows of a block type with several tokens. Decoding costs more
// than a multiplication, so every block is decoded once for all tokens.

#ifndef LOWMEM_QUANT_KERNELS_MULTIPLY_BLOCKS_H_
#define LOWMEM_QUANT_KERNELS_MULTIPLY_BLOCKS_H_

#include <cstddef>

#include "quant/kernels/tokens.h"
#include "quant/matmul.h"

namespace lowmem {

// Ranges that begin at a multiple of this, and are long, waste no work.
inline constexpr size_t kRowsPerBlock = 15;

// Dot products of rows row_begin <= r < row_end with all tokens, in the order
// of matmul.h. Chooses the instruction set once per call. Memory: up to 160 KiB
// of stack. REQUIRES: weights.num_cols is a multiple of 16.
void MultiplyBlocks(const WeightRows& weights, size_t row_begin, size_t row_end,
                    const Tokens& tokens);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_MULTIPLY_BLOCKS_H_
