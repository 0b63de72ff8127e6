// SPDX-License-Identifier: Apache-2.0
// How keys and values are kept: a row of float32 numbers (one position of one
// head) in fewer bytes. What attention computes with encoded rows is in
// kv_rows.h.
// Invariant: bytes depend on the row alone, the same on every target; plain
// code, since a token encodes few rows.

#ifndef LOWMEM_QUANT_KV_CODEC_H_
#define LOWMEM_QUANT_KV_CODEC_H_

#include <cstddef>
#include <cstdint>

namespace lowmem {

// Bytes of a row of n numbers, little-endian, no alignment:
//   kF32   4 n: float32
//   kBF16  2 n: bfloat16, rounded to nearest even; NaN stays NaN, what is above
//          the largest bfloat16 becomes infinite
//   kQ8    n + 2 ceil(n / 32): one signed byte a number, then one bfloat16
//   scale
//          a block of 32 (the last may be shorter); a number is scale * byte
// kQ8, for a block whose largest magnitude is a: scale = a / 127 as float32,
// rounded to the nearest bfloat16, ties to even; byte = number / scale as
// float32, held between -127 and 127, rounded to the nearest integer, ties to
// even. A scale of zero (a below 2^-127) has bytes of zero. So the error is at
// most scale / 2 where the scale is no denormal, and -0 becomes 0. A block with
// an infinity or NaN has the scale NaN: damage spreads to the logits, where it
// is reported.
enum class KvFormat : uint8_t { kF32, kBF16, kQ8 };

inline constexpr size_t kKvQ8Block = 32;

size_t KvRowBytes(KvFormat format, size_t num_elements);

// src [num_elements]; dst KvRowBytes. They do not overlap.
void EncodeKvRow(KvFormat format, const float* src, size_t num_elements,
                 uint8_t* dst);

// The numbers that an encoded row stands for, exactly.
void DecodeKvRow(KvFormat format, const uint8_t* src, size_t num_elements,
                 float* dst);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KV_CODEC_H_
