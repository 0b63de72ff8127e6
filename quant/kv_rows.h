// SPDX-License-Identifier: Apache-2.0
// What attention does with pages of encoded keys and values (kv_codec.h),
// without decoding them first. Results are those of the decoded rows, bit for
// bit, in the order of matmul.h. Pointers need no alignment.

#ifndef LOWMEM_QUANT_KV_ROWS_H_
#define LOWMEM_QUANT_KV_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "quant/kv_codec.h"

namespace lowmem {

// One query head with the keys of many positions: out[i] = scale * dot(q, key
// i), the dot product in the order of matmul.h, the scale applied to its
// result.
//   q     [n]
//   keys  [num_keys], rows of KvRowBytes(format, n), one behind the other
//   out   [num_keys]
void DotKeys(KvFormat format, const float* q, const uint8_t* keys,
             size_t num_keys, size_t n, float scale, float* out);

// inout[j] += weights[i] * value i[j], fused, for i = 0, 1, ... in this order,
// so that positions may be given in pieces.
//   weights  [num_values]
//   values   [num_values], rows of KvRowBytes(format, n), one behind the other
//   inout    [n]
void AddWeightedValues(KvFormat format, const float* weights,
                       const uint8_t* values, size_t num_values, size_t n,
                       float* inout);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KV_ROWS_H_
