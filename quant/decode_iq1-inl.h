// SPDX-License-Identifier: Apache-2.0
// IQ1_S and IQ1_M: runs of eight values -1, 0, 1 from one codebook of 2048 entries,
// moved by an eighth up or down, under a 3-bit scale.

#if defined(LOWMEM_QUANT_DECODE_IQ1_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_IQ1_INL_H_
#undef LOWMEM_QUANT_DECODE_IQ1_INL_H_
#else
#define LOWMEM_QUANT_DECODE_IQ1_INL_H_
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

constexpr float kShift = 0.125f;

HWY_INLINE void WriteShifted(float scale, const IqEntry<8>& grid, float shift,
                             float* __restrict out) {
  for (size_t j = 0; j < 8; ++j) {
    out[j] = scale * (static_cast<float>(grid.values[j]) + shift);
  }
}

inline void DecodeIQ1_S(const uint8_t* __restrict src, size_t num_elements,
                        float* __restrict dst) {
  // f16 scale, 32 low code bytes, 8 words: four times three upper code bits, a 3-bit
  // scale, the sign of the shift.
  constexpr size_t kBytes = 50;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    for (size_t group = 0; group < 8; ++group) {
      const uint8_t* codes = src + 2 + 4 * group;
      const uint32_t word = LoadU16(src + 34 + 2 * group);
      const float group_scale =
          scale * static_cast<float>(2 * ((word >> 12) & 7) + 1);
      const float shift = (word & 0x8000) != 0 ? -kShift : kShift;
      for (size_t k = 0; k < 4; ++k) {
        const uint32_t upper = (word >> (3 * k)) & 7;
        WriteShifted(group_scale, kIq1Grid[codes[k] | (upper << 8)], shift,
                   dst + i + 32 * group + 8 * k);
      }
    }
  }
}

inline void DecodeIQ1_M(const uint8_t* __restrict src, size_t num_elements,
                        float* __restrict dst) {
  // 32 low code bytes, 16 bytes of two nibbles (three upper code bits and the sign
  // of the shift), four words of four 3-bit scales. The top nibbles of the four
  // words are the f16 scale, lowest first.
  constexpr size_t kBytes = 56;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    uint32_t scale_bits = 0;
    for (size_t word = 0; word < 4; ++word) {
      scale_bits |= static_cast<uint32_t>(src[49 + 2 * word] >> 4) << (4 * word);
    }
    const float scale = F16ToF32(static_cast<uint16_t>(scale_bits));
    for (size_t run = 0; run < 32; ++run) {
      const uint32_t nibble = (src[32 + run / 2] >> (run % 2 * 4)) & 15u;
      const size_t group = run / 2;  // of 16 values
      const uint32_t three =
          (LoadU16(src + 48 + 2 * (group / 4)) >> (3 * (group % 4))) & 7u;
      WriteShifted(scale * static_cast<float>(2 * three + 1),
                 kIq1Grid[src[run] | ((nibble & 7) << 8)],
                 (nibble & 8) != 0 ? -kShift : kShift, dst + i + 8 * run);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
