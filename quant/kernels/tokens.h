// SPDX-License-Identifier: Apache-2.0
// The activations of several tokens and where their products go: the right and
// left sides of a matrix product.

#ifndef LOWMEM_QUANT_KERNELS_TOKENS_H_
#define LOWMEM_QUANT_KERNELS_TOKENS_H_

#include <cstddef>

namespace lowmem {

struct Tokens {
  const float* x;  // [num_tokens, x_stride]
  size_t x_stride;
  size_t num_tokens;
  float* out;  // [num_tokens, out_stride]
  size_t out_stride;

  // `count` tokens from `first` on.
  Tokens Part(size_t first, size_t count) const {
    return {x + first * x_stride, x_stride, count, out + first * out_stride,
            out_stride};
  }
};

}  // namespace lowmem

#endif  // LOWMEM_QUANT_KERNELS_TOKENS_H_
