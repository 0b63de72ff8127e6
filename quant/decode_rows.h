// SPDX-License-Identifier: Apache-2.0
// The decoders behind DecodeRow, one for each type, in files by group. Block
// layouts are in README.md. Each takes whole blocks, reads `src` at any alignment
// and writes `num_elements` values; src and dst do not overlap.

#ifndef LOWMEM_QUANT_DECODE_ROWS_H_
#define LOWMEM_QUANT_DECODE_ROWS_H_

#include <cstddef>
#include <cstdint>

namespace lowmem {

using RowDecoder = void(const uint8_t* src, size_t num_elements, float* dst);

// decode_float.cc
RowDecoder DecodeF32, DecodeF16, DecodeBF16;
// decode_legacy.cc
RowDecoder DecodeQ4_0, DecodeQ4_1, DecodeQ5_0, DecodeQ5_1, DecodeQ8_0;
// decode_k.cc
RowDecoder DecodeQ2_K, DecodeQ3_K, DecodeQ4_K, DecodeQ5_K, DecodeQ6_K;
// decode_iq.cc
RowDecoder DecodeIQ2_XXS, DecodeIQ2_XS, DecodeIQ2_S, DecodeIQ3_XXS, DecodeIQ3_S;
// decode_iq1.cc
RowDecoder DecodeIQ1_S, DecodeIQ1_M;
// decode_iq4.cc
RowDecoder DecodeIQ4_NL, DecodeIQ4_XS;
// decode_ternary.cc
RowDecoder DecodeTQ1_0, DecodeTQ2_0;
// decode_fp4.cc
RowDecoder DecodeMXFP4, DecodeNVFP4;

}  // namespace lowmem

#endif  // LOWMEM_QUANT_DECODE_ROWS_H_
