// SPDX-License-Identifier: Apache-2.0
#include "quant/matmul.h"

#include "quant/kernels/dot_rows.h"
#include "quant/kernels/multiply_rows.h"

namespace lowmem {
namespace {

bool IsFloat(DType dtype) { return TraitsOf(dtype).block_elements == 1; }

// Short ranges would bring the rows that DotRows walks together close to another.
constexpr size_t kMinDirectRows = 16;

}  // namespace

void MatMul(const WeightRows& weights, const float* x, size_t x_stride,
            size_t num_tokens, float* out, size_t out_stride, ThreadPool& pool) {
  if (num_tokens == 0) return;
  if (num_tokens == 1 ||
      (num_tokens <= kMaxDirectTokens && IsFloat(weights.dtype))) {
    pool.ParallelFor(weights.num_rows, kMinDirectRows,
                     [&](size_t begin, size_t end, size_t) {
                       DotRows(weights, begin, end, x, x_stride, num_tokens, out,
                               out_stride);
                     });
    return;
  }
  pool.ParallelFor(weights.num_rows, kRowsPerBlock,
                   [&](size_t begin, size_t end, size_t) {
                     MultiplyRows(weights, begin, end, x, x_stride, num_tokens,
                                  out, out_stride);
                   });
}

float Dot(const float* a, const float* b, size_t num_elements) {
  const WeightRows row{DType::kF32, reinterpret_cast<const uint8_t*>(a),
                       num_elements * sizeof(float), 1, num_elements};
  float result;
  DotRows(row, 0, 1, b, num_elements, 1, &result, 1);
  return result;
}

}  // namespace lowmem
