// SPDX-License-Identifier: Apache-2.0
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 values under one half-precision scale. Values j
// and j + 16 share a byte, the low four bits for j.

#if defined(LOWMEM_QUANT_DECODE_LEGACY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#undef LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#else
#define LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

constexpr size_t kHalf = 16;

// Bit `idx` of a word of fifth bits, as 16 or 0.
HWY_INLINE int32_t FifthBit(uint32_t bits, size_t idx) {
  return (bits & (1u << idx)) != 0 ? 16 : 0;
}

inline void DecodeQ4_0(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  constexpr size_t kBytes = 18;  // f16 scale, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const uint8_t* packed = src + 2;
    float* out = dst + i;
    for (size_t j = 0; j < kHalf; ++j) {
      out[j] = scale * static_cast<float>((packed[j] & 15) - 8);
    }
    for (size_t j = 0; j < kHalf; ++j) {
      out[kHalf + j] = scale * static_cast<float>((packed[j] >> 4) - 8);
    }
  }
}

inline void DecodeQ4_1(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  constexpr size_t kBytes = 20;  // f16 scale, f16 minimum, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const uint8_t* packed = src + 4;
    float* out = dst + i;
    for (size_t j = 0; j < kHalf; ++j) {
      out[j] = scale * static_cast<float>(packed[j] & 15) + minimum;
    }
    for (size_t j = 0; j < kHalf; ++j) {
      out[kHalf + j] = scale * static_cast<float>(packed[j] >> 4) + minimum;
    }
  }
}

inline void DecodeQ5_0(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  constexpr size_t kBytes = 22;  // f16 scale, 32 fifth bits, 16 bytes of low bits
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const uint32_t fifth = LoadU32(src + 2);
    const uint8_t* packed = src + 6;
    float* out = dst + i;
    for (size_t j = 0; j < kHalf; ++j) {
      const int32_t value = (packed[j] & 15) + FifthBit(fifth, j);
      out[j] = scale * static_cast<float>(value - 16);
    }
    for (size_t j = 0; j < kHalf; ++j) {
      const int32_t value = (packed[j] >> 4) + FifthBit(fifth, kHalf + j);
      out[kHalf + j] = scale * static_cast<float>(value - 16);
    }
  }
}

inline void DecodeQ5_1(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  constexpr size_t kBytes = 24;  // as Q5_0 with an f16 minimum after the scale
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const uint32_t fifth = LoadU32(src + 4);
    const uint8_t* packed = src + 8;
    float* out = dst + i;
    for (size_t j = 0; j < kHalf; ++j) {
      const int32_t value = (packed[j] & 15) + FifthBit(fifth, j);
      out[j] = scale * static_cast<float>(value) + minimum;
    }
    for (size_t j = 0; j < kHalf; ++j) {
      const int32_t value = (packed[j] >> 4) + FifthBit(fifth, kHalf + j);
      out[kHalf + j] = scale * static_cast<float>(value) + minimum;
    }
  }
}

inline void DecodeQ8_0(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  constexpr size_t kBytes = 34;  // f16 scale, 32 signed bytes
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const uint8_t* values = src + 2;
    float* out = dst + i;
    for (size_t j = 0; j < kSmallBlock; ++j) {
      out[j] = scale * static_cast<float>(static_cast<int8_t>(values[j]));
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
