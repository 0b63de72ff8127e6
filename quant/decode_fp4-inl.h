// SPDX-License-Identifier: Apache-2.0
// MXFP4 and NVFP4: four-bit floats (one sign, two exponent, one mantissa bit)
// under an eight-bit float scale. The values are kept doubled, the scales
// halved, so that the values are whole.

#if defined(LOWMEM_QUANT_DECODE_FP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_DECODE_FP4_INL_H_
#undef LOWMEM_QUANT_DECODE_FP4_INL_H_
#else
#define LOWMEM_QUANT_DECODE_FP4_INL_H_
#endif

#include <bit>
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

// E2M1, doubled (OCP Microscaling Formats 1.0; ggml's kvalues_mxfp4). Minus
// zero decodes as zero, as there.
constexpr int8_t kDoubledE2M1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                     0, -1, -2, -3, -4, -6, -8, -12};

// 2^(exponent - 128). The two lowest are float32 denormals; 255 is no NaN here.
HWY_INLINE float HalvedE8M0(uint32_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent
                                           : (exponent - 1) << 23);
}

// Half of an E4M3 number, whose sign bit is not looked at. 0x7F counts as zero,
// as in ggml.
HWY_INLINE float HalvedE4M3(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15u;
  const uint32_t mantissa = bits & 7u;
  if (bits == 0x7F) return 0.0f;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::bit_cast<float>(((exponent + 119u) << 23) | (mantissa << 20));
}

inline void DecodeMXFP4(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  constexpr size_t kBytes = 17;  // E8M0 scale, 16 bytes of values
  for (size_t i = 0; i < num_elements; i += kSmallBlock, src += kBytes) {
    int8_t values[kSmallBlock];
    LookUpNibbles(kDoubledE2M1, src + 1, values, values + 16);
    WriteScaled<kSmallBlock>(values, HalvedE8M0(src[0]), dst + i);
  }
}

inline void DecodeNVFP4(const uint8_t* HWY_RESTRICT src, size_t num_elements,
                        float* HWY_RESTRICT dst) {
  constexpr size_t kBytes =
      36;  // four E4M3 scales, four times 8 bytes of values
  for (size_t i = 0; i < num_elements; i += 64, src += kBytes) {
    // Values j and j + 8 of a group share a byte; a lookup takes two groups.
    for (size_t pair = 0; pair < 2; ++pair) {
      int8_t low[16];
      int8_t high[16];
      LookUpNibbles(kDoubledE2M1, src + 4 + 16 * pair, low, high);
      for (size_t half = 0; half < 2; ++half) {
        const size_t group = 2 * pair + half;
        int8_t values[16];
        StoreWord(LoadWord(low + 8 * half), values);
        StoreWord(LoadWord(high + 8 * half), values + 8);
        WriteScaled<16>(values, HalvedE4M3(src[group]), dst + i + 16 * group);
      }
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
