// SPDX-License-Identifier: Apache-2.0
// What attention does with pages of encoded keys and values (kv_codec.h),
// without decoding them first, for all query heads that share them. Results are
// those of the decoded rows, bit for bit, in the order of matmul.h, and do not
// depend on which heads come together. Pointers need no alignment.

#ifndef LOWMEM_QUANT_KV_ROWS_H_
#define LOWMEM_QUANT_KV_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "quant/kv_codec.h"

namespace lowmem {

// Rows of the query heads that share a key-value head, for one or several
// tokens: group_size rows of n numbers, one behind the other, and
// those of the next token token_stride numbers on.
template <typename Float>
struct GroupRows {
  Float* data;
  size_t num_tokens;
  size_t group_size;
  size_t token_stride;
  size_t n;

  size_t num_rows() const { return num_tokens * group_size; }
  // Rows in order of token, then head.
  Float* Row(size_t i) const {
    return data + i / group_size * token_stride + i % group_size * n;
  }
};

// out[i * out_stride + k] = scale * dot(row i of q, key k), the dot product in
// the order of matmul.h, the scale applied to its result.
//   keys       [num_keys], rows of KvRowBytes(format, q.n), one behind the
//   other next_keys  as many, which will be asked for next: the cache fetches
//   them
//              meanwhile; or nullptr
//   out        [q.num_rows(), out_stride], num_keys of each row written
void DotKeys(KvFormat format, const GroupRows<const float>& q,
             const uint8_t* keys, const uint8_t* next_keys, size_t num_keys,
             float scale, float* out, size_t out_stride);

// Column j of row i of inout += weights[i * weights_stride + k] * value k[j],
// fused, for k = 0, 1, ... in this order, so that positions may be given in
// pieces; columns begin <= j < end, so that threads may share a row.
//   weights      [inout.num_rows(), weights_stride], num_values of each used
//   values       [num_values], rows of KvRowBytes(format, inout.n), one behind
//                the other
//   next_values  as next_keys
// REQUIRES: begin is a multiple of kColumnAlignment; end is too, or is inout.n.
inline constexpr size_t kColumnAlignment = 16;
void AddWeightedValues(KvFormat format, const float* weights,
                       size_t weights_stride, const uint8_t* values,
                       const uint8_t* next_values, size_t num_values,
                       size_t begin, size_t end, const GroupRows<float>& inout);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KV_ROWS_H_
