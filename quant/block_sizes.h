// SPDX-License-Identifier: Apache-2.0
// Elements of one block of the GGUF types; parts of the format, never change.

#ifndef LOWMEM_QUANT_BLOCK_SIZES_H_
#define LOWMEM_QUANT_BLOCK_SIZES_H_

#include <cstddef>

namespace lowmem {

inline constexpr size_t kSmallBlock = 32;   // Q4_0 to Q8_0, IQ4_NL, MXFP4
inline constexpr size_t kSuperBlock = 256;  // K, ternary and the other IQ types

}  // namespace lowmem

#endif  // LOWMEM_QUANT_BLOCK_SIZES_H_
