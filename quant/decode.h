// SPDX-License-Identifier: Apache-2.0
// Stored weights turned into the float32 numbers they stand for, exactly.

#ifndef LOWMEM_QUANT_DECODE_H_
#define LOWMEM_QUANT_DECODE_H_

#include <cstddef>
#include <cstdint>

#include "storage/dtype.h"

namespace lowmem {

// Decodes `num_elements` values from `src` (no alignment) into `dst`. Bit-equal
// to ggml's dequantize_row_* and to IEEE conversion; denormals, infinities and
// NaN of F16 and BF16 are kept. REQUIRES: TraitsOf(dtype).decodable;
// num_elements is a multiple of the block.
void DecodeRow(DType dtype, const uint8_t* src, size_t num_elements,
               float* dst);

// Whether DecodeRow takes the type: TraitsOf(dtype).decodable, from quant's
// side.
bool HasDecoder(DType dtype);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_DECODE_H_
