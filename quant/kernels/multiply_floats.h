// SPDX-License-Identifier: Apache-2.0
// Products of F32, F16 and BF16 rows with several tokens, decoded in registers.

#ifndef LOWMEM_QUANT_KERNELS_MULTIPLY_FLOATS_H_
#define LOWMEM_QUANT_KERNELS_MULTIPLY_FLOATS_H_

#include <cstddef>

#include "quant/kernels/tokens.h"
#include "quant/matmul.h"

namespace lowmem {

// Dot products of rows row_begin <= r < row_end with all tokens, in the order
// of matmul.h. Chooses the instruction set once per call. Memory: up to 4 KiB
// of stack. REQUIRES: weights.dtype is F32, F16 or BF16; row_begin < row_end.
void MultiplyFloats(const WeightRows& weights, size_t row_begin, size_t row_end,
                    const Tokens& tokens);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_MULTIPLY_FLOATS_H_
