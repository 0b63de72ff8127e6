// SPDX-License-Identifier: Apache-2.0
// Q2_K to Q6_K: 256 values in groups of 16 or 32, each group with a small
// integer scale (and minimum) under the block's half-precision ones. Low bits
// lie in planes: a byte of a plane holds values of several runs of 32, the
// first run lowest.

#if defined(LOWMEM_QUANT_DECODE_K_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_K_INL_H_
#undef LOWMEM_QUANT_DECODE_K_INL_H_
#else
#define LOWMEM_QUANT_DECODE_K_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/scalar_convert.h"
#include "quant/write_scaled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// The 8 scales and 8 minimums of Q4_K and Q5_K, six bits each in 12 bytes: the
// first four of each kind in the low six bits of bytes 0..3 and 4..7; of the
// last four the low four bits in bytes 8..11 (scale low, minimum high) and the
// upper two bits on top of bytes 0..3 and 4..7.
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

// The 16 signed scales of Q3_K, six bits each in 12 bytes: low four bits in
// bytes 0..7 (scales 0..7 low half, 8..15 high half), upper two bits in
// bytes 8..11.
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

inline void DecodeQ2_K(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  // 16 bytes of 4-bit scales and minimums, 64 of values, f16 scale, f16
  // minimum.
  constexpr size_t kBytes = 84;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 80));
    const float minimum = F16ToF32(LoadU16(src + 82));
    for (size_t run = 0; run < 8; ++run) {
      const uint8_t* packed = src + 16 + 32 * (run / 4);
      const size_t shift = 2 * (run % 4);
      int8_t values[32];
      for (size_t j = 0; j < 32; j += 8) {
        StoreWord((LoadWord(packed + j) >> shift) & EveryByte(3), values + j);
      }
      for (size_t half = 0; half < 2; ++half) {
        const int both = src[2 * run + half];
        WriteScaled<16>(values + 16 * half,
                        scale * static_cast<float>(both & 15),
                        -(minimum * static_cast<float>(both >> 4)),
                        dst + i + 32 * run + 16 * half);
      }
    }
  }
}

inline void DecodeQ3_K(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  // 32 bytes of third bits, 64 of low bits, 12 of scales, f16 scale. A third
  // bit that is clear means minus four.
  constexpr size_t kBytes = 110;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 108));
    const SixteenScales unpacked = UnpackQ3Scales(src + 96);
    for (size_t run = 0; run < 8; ++run) {
      const uint8_t* packed = src + 32 + 32 * (run / 4);
      const size_t shift = 2 * (run % 4);
      int8_t values[32];
      for (size_t j = 0; j < 32; j += 8) {
        const uint64_t low = (LoadWord(packed + j) >> shift) & EveryByte(3);
        const uint64_t high = ((LoadWord(src + j) >> run) & EveryByte(1)) << 2;
        StoreWord(Centre<4>(low | high), values + j);
      }
      for (size_t half = 0; half < 2; ++half) {
        const int six_bits = unpacked.scales[2 * run + half] - 32;
        WriteScaled<16>(values + 16 * half,
                        scale * static_cast<float>(six_bits),
                        dst + i + 32 * run + 16 * half);
      }
    }
  }
}

inline void DecodeQ4_K(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  // f16 scale, f16 minimum, 12 bytes of group scales, 128 of values.
  constexpr size_t kBytes = 144;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const ScalesAndMinimums unpacked = UnpackSixBits(src + 4);
    for (size_t run = 0; run < 8; ++run) {
      const uint8_t* packed = src + 16 + 32 * (run / 2);
      const size_t shift = 4 * (run % 2);
      int8_t values[32];
      for (size_t j = 0; j < 32; j += 8) {
        StoreWord((LoadWord(packed + j) >> shift) & EveryByte(15), values + j);
      }
      WriteScaled<32>(values, scale * static_cast<float>(unpacked.scales[run]),
                      -(minimum * static_cast<float>(unpacked.minimums[run])),
                      dst + i + 32 * run);
    }
  }
}

inline void DecodeQ5_K(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  // f16 scale, f16 minimum, 12 bytes of group scales, 32 of fifth bits, 128 of
  // low bits.
  constexpr size_t kBytes = 176;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const float minimum = F16ToF32(LoadU16(src + 2));
    const ScalesAndMinimums unpacked = UnpackSixBits(src + 4);
    const uint8_t* fifth = src + 16;
    for (size_t run = 0; run < 8; ++run) {
      const uint8_t* packed = src + 48 + 32 * (run / 2);
      const size_t shift = 4 * (run % 2);
      int8_t values[32];
      for (size_t j = 0; j < 32; j += 8) {
        const uint64_t low = (LoadWord(packed + j) >> shift) & EveryByte(15);
        const uint64_t high = ((LoadWord(fifth + j) >> run) & EveryByte(1))
                              << 4;
        StoreWord(low | high, values + j);
      }
      WriteScaled<32>(values, scale * static_cast<float>(unpacked.scales[run]),
                      -(minimum * static_cast<float>(unpacked.minimums[run])),
                      dst + i + 32 * run);
    }
  }
}

inline void DecodeQ6_K(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  // 128 bytes of low four bits, 64 of upper two, 16 signed scales, f16 scale.
  // Of the four runs of a half block, 0 and 2 share low bytes, as 1 and 3 do;
  // all four share the upper ones.
  constexpr size_t kBytes = 210;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 208));
    const uint8_t* scales = src + 192;
    for (size_t run = 0; run < 8; ++run) {
      const uint8_t* low = src + 64 * (run / 4) + 32 * (run % 2);
      const uint8_t* high = src + 128 + 32 * (run / 4);
      const size_t low_shift = 4 * (run / 2 % 2);
      const size_t high_shift = 2 * (run % 4);
      int8_t values[32];
      for (size_t j = 0; j < 32; j += 8) {
        const uint64_t word =
            ((LoadWord(low + j) >> low_shift) & EveryByte(15)) |
            (((LoadWord(high + j) >> high_shift) & EveryByte(3)) << 4);
        StoreWord(Centre<32>(word), values + j);
      }
      for (size_t half = 0; half < 2; ++half) {
        const int8_t signed_scale = static_cast<int8_t>(scales[2 * run + half]);
        WriteScaled<16>(values + 16 * half,
                        scale * static_cast<float>(signed_scale),
                        dst + i + 32 * run + 16 * half);
      }
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
