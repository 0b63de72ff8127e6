// SPDX-License-Identifier: Apache-2.0
// Q2_K to Q6_K: 256 values in groups of 16 or 32, each group with a small integer
// scale (and minimum) under the block's half-precision ones. Low bits lie in planes:
// a byte of a plane holds the values j, j + 32, j + 64, ... of its half block.

#if defined(LOWMEM_QUANT_DECODE_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_K_INL_H_
#undef LOWMEM_QUANT_DECODE_K_INL_H_
#else
#define LOWMEM_QUANT_DECODE_K_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// The 8 scales and 8 minimums of Q4_K and Q5_K, six bits each in 12 bytes: the first
// four of each kind in the low six bits of bytes 0..3 and 4..7; of the last four the
// low four bits in bytes 8..11 (scale low, minimum high) and the upper two bits on
// top of bytes 0..3 and 4..7.
struct ScalesAndMinimums {
  uint8_t scales[8];
  uint8_t minimums[8];
};

HWY_INLINE ScalesAndMinimums UnpackSixBits(const uint8_t* packed) {
  const uint32_t low = LoadU32(packed);
  const uint32_t middle = LoadU32(packed + 4);
  const uint32_t high = LoadU32(packed + 8);
  const uint32_t words[4] = {
      low & 0x3F3F3F3F,
      (high & 0x0F0F0F0F) | ((low >> 2) & 0x30303030),
      middle & 0x3F3F3F3F,
      ((high >> 4) & 0x0F0F0F0F) | ((middle >> 2) & 0x30303030),
  };
  ScalesAndMinimums result;
  std::memcpy(&result, words, sizeof(words));
  return result;
}

// The 16 signed scales of Q3_K, six bits each in 12 bytes: low four bits in bytes
// 0..7 (scales 0..7 low half, 8..15 high half), upper two bits in bytes 8..11.
struct SixteenScales {
  uint8_t scales[16];
};

HWY_INLINE SixteenScales UnpackQ3Scales(const uint8_t* packed) {
  const uint32_t low0 = LoadU32(packed);
  const uint32_t low1 = LoadU32(packed + 4);
  const uint32_t high = LoadU32(packed + 8);
  const uint32_t words[4] = {
      (low0 & 0x0F0F0F0F) | ((high << 4) & 0x30303030),
      (low1 & 0x0F0F0F0F) | ((high << 2) & 0x30303030),
      ((low0 >> 4) & 0x0F0F0F0F) | (high & 0x30303030),
      ((low1 >> 4) & 0x0F0F0F0F) | ((high >> 2) & 0x30303030),
  };
  SixteenScales result;
  std::memcpy(&result, words, sizeof(words));
  return result;
}

inline void DecodeQ2_K(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  // 16 bytes of 4-bit scales and minimums, 64 of values, f16 scale, f16 minimum.
  constexpr size_t kBytes = 84;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 80));
    const float minimum = F16ToF32(LoadU16(src + 82));
    for (size_t group = 0; group < 16; ++group) {
      const float group_scale = scale * static_cast<float>(src[group] & 15);
      const float group_minimum = minimum * static_cast<float>(src[group] >> 4);
      const uint8_t* packed = src + 16 + 32 * (group / 8) + 16 * (group % 2);
      const int shift = 2 * static_cast<int>(group / 2 % 4);
      float* out = dst + i + 16 * group;
      for (size_t j = 0; j < 16; ++j) {
        out[j] = group_scale * static_cast<float>((packed[j] >> shift) & 3) -
                 group_minimum;
      }
    }
  }
}

inline void DecodeQ3_K(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  // 32 bytes of third bits, 64 of low bits, 12 of scales, f16 scale. A third bit
  // that is clear means minus four.
  constexpr size_t kBytes = 110;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 108));
    const SixteenScales unpacked = UnpackQ3Scales(src + 96);
    for (size_t group = 0; group < 16; ++group) {
      const float group_scale =
          scale * static_cast<float>(unpacked.scales[group] - 32);
      const uint8_t* third = src + 16 * (group % 2);
      const uint8_t* packed = src + 32 + 32 * (group / 8) + 16 * (group % 2);
      const int shift = 2 * static_cast<int>(group / 2 % 4);
      const int third_shift = static_cast<int>(group / 2);
      float* out = dst + i + 16 * group;
      for (size_t j = 0; j < 16; ++j) {
        const int32_t low = (packed[j] >> shift) & 3;
        const int32_t high = ((third[j] >> third_shift) & 1) << 2;
        out[j] = group_scale * static_cast<float>(low + high - 4);
      }
    }
  }
}

inline void DecodeQ4_K(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  // f16 scale, f16 minimum, 12 bytes of group scales, 128 of values.
  constexpr size_t kBytes = 144;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const ScalesAndMinimums unpacked = UnpackSixBits(src + 4);
    for (size_t group = 0; group < 8; ++group) {
      const float group_scale =
          scale * static_cast<float>(unpacked.scales[group]);
      const float group_minimum =
          minimum * static_cast<float>(unpacked.minimums[group]);
      const uint8_t* packed = src + 16 + 32 * (group / 2);
      const int shift = 4 * static_cast<int>(group % 2);
      float* out = dst + i + 32 * group;
      for (size_t j = 0; j < 32; ++j) {
        out[j] = group_scale * static_cast<float>((packed[j] >> shift) & 15) -
                 group_minimum;
      }
    }
  }
}

inline void DecodeQ5_K(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  // f16 scale, f16 minimum, 12 bytes of group scales, 32 of fifth bits, 128 of low
  // bits.
  constexpr size_t kBytes = 176;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const ScalesAndMinimums unpacked = UnpackSixBits(src + 4);
    const uint8_t* fifth = src + 16;
    for (size_t group = 0; group < 8; ++group) {
      const float group_scale =
          scale * static_cast<float>(unpacked.scales[group]);
      const float group_minimum =
          minimum * static_cast<float>(unpacked.minimums[group]);
      const uint8_t* packed = src + 48 + 32 * (group / 2);
      const int shift = 4 * static_cast<int>(group % 2);
      const int fifth_shift = static_cast<int>(group);
      float* out = dst + i + 32 * group;
      for (size_t j = 0; j < 32; ++j) {
        const int32_t low = (packed[j] >> shift) & 15;
        const int32_t high = ((fifth[j] >> fifth_shift) & 1) << 4;
        out[j] = group_scale * static_cast<float>(low + high) - group_minimum;
      }
    }
  }
}

inline void DecodeQ6_K(const uint8_t* __restrict src, size_t num_elements,
                       float* __restrict dst) {
  // 128 bytes of low four bits, 64 of upper two, 16 signed scales, f16 scale.
  constexpr size_t kBytes = 210;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 208));
    const uint8_t* scales = src + 192;
    for (size_t group = 0; group < 16; ++group) {
      const float group_scale =
          scale * static_cast<float>(static_cast<int8_t>(scales[group]));
      // Four runs of 32 values in each half block: the low bits of runs 0 and 2
      // share bytes, as those of 1 and 3 do; the upper bits of all four.
      const size_t half = group / 8;
      const size_t run = group / 2 % 4;
      const size_t within = 16 * (group % 2);
      const uint8_t* low = src + 64 * half + 32 * (run % 2) + within;
      const uint8_t* high = src + 128 + 32 * half + within;
      const int low_shift = 4 * static_cast<int>(run / 2);
      const int high_shift = 2 * static_cast<int>(run);
      float* out = dst + i + 16 * group;
      for (size_t j = 0; j < 16; ++j) {
        const int32_t value = ((low[j] >> low_shift) & 15) +
                              (((high[j] >> high_shift) & 3) << 4);
        out[j] = group_scale * static_cast<float>(value - 32);
      }
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
