// SPDX-License-Identifier: Apache-2.0
// IQ4_NL and IQ4_XS: four bits choose one of 16 unevenly spaced values. Values
// j and j + 16 share a byte, the low four bits for j.

#if defined(LOWMEM_QUANT_DECODE_IQ4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_IQ4_INL_H_
#undef LOWMEM_QUANT_DECODE_IQ4_INL_H_
#else
#define LOWMEM_QUANT_DECODE_IQ4_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/iq_codebooks.h"
#include "quant/nibble_lookup-inl.h"
#include "quant/scalar_convert.h"
#include "quant/write_scaled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

inline void DecodeIQ4_NL(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                         float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 18;  // f16 scale, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    LookUpNibbles(kIq4Values, src + 2, values, values + 16);
    WriteScaled<kSmallBlock>(values, F16ToF32(LoadU16(src)), dst + i);
  }
}

inline void DecodeIQ4_XS(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                         float* HWY_RESTRICT dst) {
  // f16 scale, a word of the upper two bits of 8 scales, 4 bytes of their low
  // four, 128 bytes of values.
  constexpr size_t kBytes = 136;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src));
    const uint32_t upper = LoadU16(src + 2);
    for (size_t group = 0; group < 8; ++group) {
      const uint32_t low = (src[4 + group / 2] >> (4 * (group % 2))) & 15u;
      const uint32_t high = (upper >> (2 * group)) & 3u;
      const int32_t six_bits = static_cast<int32_t>(low | (high << 4)) - 32;
      int8_t values[32];
      LookUpNibbles(kIq4Values, src + 8 + 16 * group, values, values + 16);
      WriteScaled<32>(values, scale * static_cast<float>(six_bits),
                      dst + i + 32 * group);
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
