// SPDX-License-Identifier: Apache-2.0
// IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S: magnitudes come in runs of eight (or
// two of four) from a codebook, signs apart; a 4-bit scale for each 16 or 32
// values.

#if defined(LOWMEM_QUANT_KERNELS_IQ_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_IQ_ROWS_INL_H_
#undef LOWMEM_QUANT_KERNELS_IQ_ROWS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_IQ_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/iq_codebooks.h"
#include "quant/kernels/write_scaled-inl.h"
#include "quant/scalar_convert.h"
#include "quant/word_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Negates the bytes of `magnitudes` where `signs` has all ones. No byte is
// zero, so that the one that two's complement adds never carries into the next.
HWY_INLINE uint64_t ApplySigns(uint64_t magnitudes, uint64_t signs) {
  return (magnitudes ^ signs) + (signs & EveryByte(1));
}

HWY_INLINE uint64_t TwoFours(uint32_t first, uint32_t second) {
  return first | (static_cast<uint64_t>(second) << 32);
}

inline void DecodeIQ2_XXS(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                          float* HWY_RESTRICT dst) {
  // f16 scale; for each 32 values four codebook bytes and a word of four 7-bit
  // signs with the scale on top.
  constexpr size_t kBytes = 66;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t signs = LoadU32(codes + 4);
      int8_t values[32];
      for (size_t k = 0; k < 4; ++k) {
        StoreWord(ApplySigns(kIq2XxsGrid[codes[k]],
                             kIqEvenSigns[(signs >> (7 * k)) & 127]),
                  values + 8 * k);
      }
      WriteScaled<32>(values,
                      scale * (0.5f + static_cast<float>(signs >> 28)) * 0.25f,
                      dst + i + 32 * group);
    }
  }
}

inline void DecodeIQ2_XS(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                         float* HWY_RESTRICT dst) {
  // f16 scale, 32 words of a 9-bit code under a 7-bit sign, 8 bytes of scales.
  constexpr size_t kBytes = 74;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 16; ++group) {
      const uint32_t first = LoadU16(src + 2 + 4 * group);
      const uint32_t second = LoadU16(src + 4 + 4 * group);
      const int nibble = (src[66 + group / 2] >> (4 * (group % 2))) & 15;
      int8_t values[16];
      StoreWord(ApplySigns(kIq2XsGrid[first & 511], kIqEvenSigns[first >> 9]),
                values);
      StoreWord(ApplySigns(kIq2XsGrid[second & 511], kIqEvenSigns[second >> 9]),
                values + 8);
      WriteScaled<16>(values,
                      scale * (0.5f + static_cast<float>(nibble)) * 0.25f,
                      dst + i + 16 * group);
    }
  }
}

inline void DecodeIQ2_S(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  // f16 scale, 32 low code bytes, 32 sign bytes, 8 bytes of upper code bits
  // (two a run), 8 bytes of scales.
  constexpr size_t kBytes = 82;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 16; ++group) {
      const int nibble = (src[74 + group / 2] >> (4 * (group % 2))) & 15;
      int8_t values[16];
      for (size_t half = 0; half < 2; ++half) {
        const size_t run = 2 * group + half;
        const uint32_t upper = (src[66 + run / 4] >> (2 * (run % 4))) & 3u;
        StoreWord(ApplySigns(kIq2SGrid[src[2 + run] | (upper << 8)],
                             kIqSigns[src[34 + run]]),
                  values + 8 * half);
      }
      WriteScaled<16>(values,
                      scale * (0.5f + static_cast<float>(nibble)) * 0.25f,
                      dst + i + 16 * group);
    }
  }
}

inline void DecodeIQ3_XXS(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                          float* HWY_RESTRICT dst) {
  // f16 scale, 64 code bytes, 8 words of signs and scale as in IQ2_XXS.
  constexpr size_t kBytes = 98;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t signs = LoadU32(src + 66 + 4 * group);
      int8_t values[32];
      for (size_t k = 0; k < 4; ++k) {
        StoreWord(ApplySigns(TwoFours(kIq3XxsGrid[codes[2 * k]],
                                      kIq3XxsGrid[codes[2 * k + 1]]),
                             kIqEvenSigns[(signs >> (7 * k)) & 127]),
                  values + 8 * k);
      }
      WriteScaled<32>(values,
                      scale * (0.5f + static_cast<float>(signs >> 28)) * 0.5f,
                      dst + i + 32 * group);
    }
  }
}

inline void DecodeIQ3_S(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  // f16 scale, 64 low code bytes, 8 bytes of ninth code bits, 32 sign bytes, 4
  // bytes of scales (a nibble for each 32 values).
  constexpr size_t kBytes = 110;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t ninth = src[66 + group];
      const int nibble = (src[106 + group / 2] >> (4 * (group % 2))) & 15;
      int8_t values[32];
      for (size_t k = 0; k < 4; ++k) {
        const uint32_t first = codes[2 * k] | ((ninth << (8 - 2 * k)) & 256);
        const uint32_t second =
            codes[2 * k + 1] | ((ninth << (7 - 2 * k)) & 256);
        StoreWord(ApplySigns(TwoFours(kIq3SGrid[first], kIq3SGrid[second]),
                             kIqSigns[src[74 + 4 * group + k]]),
                  values + 8 * k);
      }
      WriteScaled<32>(values, scale * static_cast<float>(1 + 2 * nibble),
                      dst + i + 32 * group);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
