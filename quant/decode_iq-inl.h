// SPDX-License-Identifier: Apache-2.0
// IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S: magnitudes come in runs of eight (or two
// of four) from a codebook, signs apart; a 4-bit scale for each 16 or 32 values.

#if defined(LOWMEM_QUANT_DECODE_IQ_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_IQ_INL_H_
#undef LOWMEM_QUANT_DECODE_IQ_INL_H_
#else
#define LOWMEM_QUANT_DECODE_IQ_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/iq_codebooks.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

HWY_INLINE void WriteSigned(float scale, const IqEntry<8>& grid, const IqEntry<8>& signs,
                            float* __restrict out) {
  for (size_t j = 0; j < 8; ++j) {
    out[j] = scale * static_cast<float>(grid.values[j] * signs.values[j]);
  }
}

HWY_INLINE void WriteTwiceFour(float scale, const IqEntry<4>& first,
                               const IqEntry<4>& second, const IqEntry<8>& signs,
                               float* __restrict out) {
  IqEntry<8> grid;
  std::memcpy(grid.values, first.values, 4);
  std::memcpy(grid.values + 4, second.values, 4);
  WriteSigned(scale, grid, signs, out);
}

inline void DecodeIQ2_XXS(const uint8_t* __restrict src, size_t num_elements,
                          float* __restrict dst) {
  // f16 scale; for each 32 values four codebook bytes and a word of four 7-bit
  // signs with the scale on top.
  constexpr size_t kBytes = 66;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t signs = LoadU32(codes + 4);
      const float group_scale =
          scale * (0.5f + static_cast<float>(signs >> 28)) * 0.25f;
      for (size_t k = 0; k < 4; ++k) {
        WriteSigned(group_scale, kIq2XxsGrid[codes[k]],
                   kIqEvenSigns[(signs >> (7 * k)) & 127],
                   dst + i + 32 * group + 8 * k);
      }
    }
  }
}

inline void DecodeIQ2_XS(const uint8_t* __restrict src, size_t num_elements,
                         float* __restrict dst) {
  // f16 scale, 32 words of a 9-bit code under a 7-bit sign, 8 bytes of scales.
  constexpr size_t kBytes = 74;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t run = 0; run < 32; ++run) {
      const uint32_t word = LoadU16(src + 2 + 2 * run);
      const int nibble = (src[66 + run / 4] >> (run / 2 % 2 * 4)) & 15;
      const float group_scale =
          scale * (0.5f + static_cast<float>(nibble)) * 0.25f;
      WriteSigned(group_scale, kIq2XsGrid[word & 511], kIqEvenSigns[word >> 9],
                 dst + i + 8 * run);
    }
  }
}

inline void DecodeIQ2_S(const uint8_t* __restrict src, size_t num_elements,
                        float* __restrict dst) {
  // f16 scale, 32 low code bytes, 32 sign bytes, 8 bytes of upper code bits (two a
  // run), 8 bytes of scales.
  constexpr size_t kBytes = 82;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t run = 0; run < 32; ++run) {
      const uint32_t upper = (src[66 + run / 4] >> (run % 4 * 2)) & 3u;
      const int nibble = (src[74 + run / 4] >> (run / 2 % 2 * 4)) & 15;
      const float group_scale =
          scale * (0.5f + static_cast<float>(nibble)) * 0.25f;
      WriteSigned(group_scale, kIq2SGrid[src[2 + run] | (upper << 8)],
                 kIqSigns[src[34 + run]], dst + i + 8 * run);
    }
  }
}

inline void DecodeIQ3_XXS(const uint8_t* __restrict src, size_t num_elements,
                          float* __restrict dst) {
  // f16 scale, 64 code bytes, 8 words of signs and scale as in IQ2_XXS.
  constexpr size_t kBytes = 98;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t signs = LoadU32(src + 66 + 4 * group);
      const float group_scale =
          scale * (0.5f + static_cast<float>(signs >> 28)) * 0.5f;
      for (size_t k = 0; k < 4; ++k) {
        WriteTwiceFour(group_scale, kIq3XxsGrid[codes[2 * k]],
                       kIq3XxsGrid[codes[2 * k + 1]],
                       kIqEvenSigns[(signs >> (7 * k)) & 127],
                       dst + i + 32 * group + 8 * k);
      }
    }
  }
}

inline void DecodeIQ3_S(const uint8_t* __restrict src, size_t num_elements,
                        float* __restrict dst) {
  // f16 scale, 64 low code bytes, 8 bytes of ninth code bits, 32 sign bytes, 4 bytes
  // of scales (a nibble for each 32 values).
  constexpr size_t kBytes = 110;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 8 * group;
      const uint32_t ninth = src[66 + group];
      const int nibble = (src[106 + group / 2] >> (group % 2 * 4)) & 15;
      const float group_scale = scale * static_cast<float>(1 + 2 * nibble);
      for (size_t k = 0; k < 4; ++k) {
        const uint32_t first = codes[2 * k] | ((ninth << (8 - 2 * k)) & 256);
        const uint32_t second =
            codes[2 * k + 1] | ((ninth << (7 - 2 * k)) & 256);
        WriteTwiceFour(group_scale, kIq3SGrid[first], kIq3SGrid[second],
                       kIqSigns[src[74 + 4 * group + k]],
                       dst + i + 32 * group + 8 * k);
      }
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
