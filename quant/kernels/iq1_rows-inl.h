// SPDX-License-Identifier: Apache-2.0
// IQ1_S and IQ1_M: runs of eight values -1, 0, 1 from one codebook of 2048
// entries, moved by an eighth up or down, under a 3-bit scale. They are put
// together in eighths; an eighth of the scale is exact.

#if defined(LOWMEM_QUANT_KERNELS_IQ1_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_IQ1_ROWS_INL_H_
#undef LOWMEM_QUANT_KERNELS_IQ1_ROWS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_IQ1_ROWS_INL_H_
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

// Eighths of a codebook entry (0, 8, 16 there), moved down by 7 or by 9.
HWY_INLINE uint64_t Shifted(uint64_t entry, bool is_down) {
  return is_down ? Centre<9>(entry) : Centre<7>(entry);
}

inline void DecodeIQ1_S(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  // f16 scale, 32 low code bytes, 8 words: four times three upper code bits, a
  // 3-bit scale, the sign of the shift.
  constexpr size_t kBytes = 50;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src)) * 0.125f;
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 4 * group;
      const uint32_t word = LoadU16(src + 34 + 2 * group);
      int8_t values[32];
      for (size_t k = 0; k < 4; ++k) {
        const uint32_t upper = (word >> (3 * k)) & 7;
        StoreWord(Shifted(kIq1Grid[codes[k] | (upper << 8)], (word >> 15) != 0),
                  values + 8 * k);
      }
      WriteScaled<32>(values,
                      scale * static_cast<float>(2 * ((word >> 12) & 7) + 1),
                      dst + i + 32 * group);
    }
  }
}

inline void DecodeIQ1_M(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  // 32 low code bytes, 16 bytes of two nibbles (three upper code bits and the
  // sign of the shift), four words of four 3-bit scales. The top nibbles of the
  // four words are the f16 scale, lowest first.
  constexpr size_t kBytes = 56;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    uint32_t scale_bits = 0;
    for (size_t word = 0; word < 4; ++word) {
      scale_bits |= static_cast<uint32_t>(src[49 + 2 * word] >> 4)
                    << (4 * word);
    }
    const float scale = F16ToF32(static_cast<uint16_t>(scale_bits)) * 0.125f;
    for (size_t group = 0; group < 16; ++group) {
      const uint32_t upper = src[32 + group];
      const uint32_t three =
          (LoadU16(src + 48 + 2 * (group / 4)) >> (3 * (group % 4))) & 7u;
      int8_t values[16];
      StoreWord(Shifted(kIq1Grid[src[2 * group] | ((upper & 7) << 8)],
                        (upper & 8) != 0),
                values);
      StoreWord(Shifted(kIq1Grid[src[2 * group + 1] | ((upper & 0x70) << 4)],
                        (upper & 0x80) != 0),
                values + 8);
      WriteScaled<16>(values, scale * static_cast<float>(2 * three + 1),
                      dst + i + 16 * group);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
