// SPDX-License-Identifier: Apache-2.0
// Rows of 16 and 32-bit floats.
#include <cstring>

#include "quant/decode_rows.h"
#include "quant/scalar_convert.h"

namespace lowmem {

void DecodeF32(const uint8_t* __restrict src, size_t num_elements,
               float* __restrict dst) {
  std::memcpy(dst, src, num_elements * sizeof(float));
}

void DecodeF16(const uint8_t* __restrict src, size_t num_elements,
               float* __restrict dst) {
  for (size_t i = 0; i < num_elements; ++i) {
    dst[i] = F16ToF32(LoadU16(src + 2 * i));
  }
}

void DecodeBF16(const uint8_t* __restrict src, size_t num_elements,
                float* __restrict dst) {
  for (size_t i = 0; i < num_elements; ++i) {
    dst[i] = BF16ToF32(LoadU16(src + 2 * i));
  }
}

}  // namespace lowmem
