// SPDX-License-Identifier: Apache-2.0
// What the two formats of four-bit floats are made of. Sources: OCP
// Microscaling Formats 1.0; ggml's kvalues_mxfp4 and ggml_e8m0_to_fp32_half,
// ggml_ue4m3_to_fp32.

#ifndef LOWMEM_QUANT_FP4_SCALES_H_
#define LOWMEM_QUANT_FP4_SCALES_H_

#include <bit>
#include <cstdint>

namespace lowmem {

// E2M1, doubled. Minus zero decodes as zero, as in ggml.
inline constexpr int8_t kDoubledE2M1[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

// 2^(exponent - 128). The two lowest are float32 denormals; 255 is no NaN here.
inline float HalvedE8M0(uint32_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000u << exponent
                                           : (exponent - 1) << 23);
}

// Half of an E4M3 number, whose sign bit is not looked at. 0x7F counts as zero,
// as in ggml.
inline float HalvedE4M3(uint8_t bits) {
  const uint32_t exponent = (bits >> 3) & 15u;
  const uint32_t mantissa = bits & 7u;
  if (bits == 0x7F) return 0.0f;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::bit_cast<float>(((exponent + 119u) << 23) | (mantissa << 20));
}

}  // namespace lowmem

#endif  // LOWMEM_QUANT_FP4_SCALES_H_
