// SPDX-License-Identifier: Apache-2.0
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0: 32 values under one half-precision scale.
// Values j and j + 16 share a byte, the low four bits for j.

#if defined(LOWMEM_QUANT_DECODE_LEGACY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#undef LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#else
#define LOWMEM_QUANT_DECODE_LEGACY_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/nibble_lookup-inl.h"
#include "quant/scalar_convert.h"
#include "quant/write_scaled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// For each byte of fifth bits the eight values 0 or 16 they add, the lowest bit
// in the lowest byte.
constexpr std::array<uint64_t, 256> SpreadFifthBits() {
  std::array<uint64_t, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) {
    for (size_t j = 0; j < 8; ++j) {
      table[i] |= static_cast<uint64_t>((i >> j) & 1) << (8 * j + 4);
    }
  }
  return table;
}
constexpr std::array<uint64_t, 256> kFifthBits = SpreadFifthBits();

// The value of each four-bit code in Q4_0 and in Q4_1. A lookup of 16 bytes
// beats shifts and masks of words (decode_bench: Q4_0 8.3 -> 9.9 G elements/s).
constexpr int8_t kQ4_0Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                    0,  1,  2,  3,  4,  5,  6,  7};
constexpr int8_t kQ4_1Values[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                    8, 9, 10, 11, 12, 13, 14, 15};

// The 32 five-bit values of a block, less kOffset.
template <uint64_t kOffset>
HWY_INLINE void UnpackFiveBits(const uint8_t* fifth, const uint8_t* packed,
                               int8_t* values) {
  for (size_t i = 0; i < 16; i += 8) {
    const uint64_t word = LoadWord(packed + i);
    const uint64_t low = (word & EveryByte(15)) | kFifthBits[fifth[i / 8]];
    const uint64_t high =
        ((word >> 4) & EveryByte(15)) | kFifthBits[fifth[2 + i / 8]];
    StoreWord(Centre<kOffset>(low), values + i);
    StoreWord(Centre<kOffset>(high), values + 16 + i);
  }
}

inline void DecodeQ4_0(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 18;  // f16 scale, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    LookUpNibbles(kQ4_0Values, src + 2, values, values + 16);
    WriteScaled<kSmallBlock>(values, F16ToF32(LoadU16(src)), dst + i);
  }
}

inline void DecodeQ4_1(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 20;  // f16 scale, f16 minimum, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    LookUpNibbles(kQ4_1Values, src + 4, values, values + 16);
    WriteScaled<kSmallBlock>(values, F16ToF32(LoadU16(src)),
                             F16ToF32(LoadU16(src + 2)), dst + i);
  }
}

inline void DecodeQ5_0(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  constexpr size_t kBytes =
      22;  // f16 scale, 32 fifth bits, 16 bytes of low bits
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    UnpackFiveBits<16>(src + 2, src + 6, values);
    WriteScaled<kSmallBlock>(values, F16ToF32(LoadU16(src)), dst + i);
  }
}

inline void DecodeQ5_1(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 24;  // as Q5_0 with an f16 minimum after the scale
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    UnpackFiveBits<0>(src + 4, src + 8, values);
    WriteScaled<kSmallBlock>(values, F16ToF32(LoadU16(src)),
                             F16ToF32(LoadU16(src + 2)), dst + i);
  }
}

inline void DecodeQ8_0(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                       float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 34;  // f16 scale, 32 signed bytes
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    WriteScaled<kSmallBlock>(reinterpret_cast<const int8_t*>(src + 2),
                             F16ToF32(LoadU16(src)), dst + i);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
