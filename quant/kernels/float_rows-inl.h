// SPDX-License-Identifier: Apache-2.0
// Rows of 16 and 32-bit floats.

#if defined(LOWMEM_QUANT_KERNELS_FLOAT_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_FLOAT_ROWS_INL_H_
#undef LOWMEM_QUANT_KERNELS_FLOAT_ROWS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_FLOAT_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

inline void DecodeF32(const uint8_t* __restrict src, size_t num_elements,
                      float* __restrict dst) {
  std::memcpy(dst, src, num_elements * sizeof(float));
}

inline void DecodeF16(const uint8_t* __restrict src, size_t num_elements,
                      float* __restrict dst) {
  for (size_t i = 0; i < num_elements; ++i) {
    dst[i] = F16ToF32(LoadU16(src + 2 * i));
  }
}

inline void DecodeBF16(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  for (size_t i = 0; i < num_elements; ++i) {
    dst[i] = BF16ToF32(LoadU16(src + 2 * i));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
