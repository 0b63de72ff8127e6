// SPDX-License-Identifier: Apache-2.0
// What is compiled for each block type, for the instruction set in use.

#ifndef LOWMEM_QUANT_KERNELS_BLOCK_KERNELS_H_
#define LOWMEM_QUANT_KERNELS_BLOCK_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "quant/matmul.h"
#include "storage/dtype.h"

namespace lowmem {

// Whole blocks; src and dst do not overlap.
using RowDecoder = void (*)(const uint8_t* src, size_t num_elements,
                            float* dst);
// As DotRows of dot_rows.h.
using RowDotter = void (*)(const WeightRows& weights, size_t row_begin,
                           size_t row_end, const float* x, float* out);

struct BlockKernels {
  RowDecoder decode_row = nullptr;
  RowDotter dot_rows = nullptr;
};

// Both are null where the type is none of the family.
BlockKernels SmallBlockKernels(DType dtype);  // Q4_0 to Q8_0, IQ4, FP4
BlockKernels KBlockKernels(DType dtype);      // Q2_K to Q6_K
BlockKernels IqBlockKernels(DType dtype);     // IQ1 to IQ3, ternary

// Of whichever family.
BlockKernels KernelsOf(DType dtype);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_BLOCK_KERNELS_H_
