// SPDX-License-Identifier: Apache-2.0
// Chooses the kernel and splits the rows over the threads.
#include "quant/matmul.h"

#include "quant/kernels/dot_rows.h"
#include "quant/kernels/multiply_floats.h"
#include "quant/kernels/multiply_rows.h"

namespace lowmem {
namespace {

// Short ranges would bring the rows that are walked together close to another.
constexpr size_t kRowsForOneToken = 16;
// Whole tiles of every target, far enough apart.
constexpr size_t kRowsForFewTokens = 24;
// From so many tokens on it pays to decode floats, too, before they are
// multiplied.
constexpr size_t kManyTokens = 16;

}  // namespace

void MatMul(const WeightRows& weights, const float* x, size_t x_stride,
            size_t num_tokens, float* out, size_t out_stride,
            ThreadPool& pool) {
  if (num_tokens == 0) return;
  if (num_tokens == 1) {
    pool.ParallelFor(weights.num_rows, kRowsForOneToken,
                     [&](size_t begin, size_t end, size_t) {
                       DotRows(weights, begin, end, x, out);
                     });
    return;
  }
  const Tokens tokens{x, x_stride, num_tokens, out, out_stride};
  if (num_tokens < kManyTokens && TraitsOf(weights.dtype).block_elements == 1) {
    pool.ParallelFor(weights.num_rows, kRowsForFewTokens,
                     [&](size_t begin, size_t end, size_t) {
                       MultiplyFloats(weights, begin, end, tokens);
                     });
    return;
  }
  pool.ParallelFor(weights.num_rows, kRowsPerBlock,
                   [&](size_t begin, size_t end, size_t) {
                     MultiplyRows(weights, begin, end, tokens);
                   });
}

float Dot(const float* a, const float* b, size_t num_elements) {
  const WeightRows row{DType::kF32, reinterpret_cast<const uint8_t*>(a),
                       num_elements * sizeof(float), 1, num_elements};
  float result;
  DotRows(row, 0, 1, b, &result);
  return result;
}

}  // namespace lowmem
