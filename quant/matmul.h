// SPDX-License-Identifier: Apache-2.0
// Products of stored weight rows with float32 activations.
//
// Order of summation, the same on every target, for every thread count and
// however many rows or tokens are computed together: lane l of 16 accumulates
// the products of columns l, l + 16, l + 32, ... with fused multiply-add,
// columns beyond the last whole group of 16 count as a group padded with zeros;
// then lanes are added in halves: l and l + 8, then l and l + 4, l + 2, l + 1.
// So one output element has one value.

#ifndef LOWMEM_QUANT_MATMUL_H_
#define LOWMEM_QUANT_MATMUL_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "storage/base/thread_pool.h"
#include "storage/dtype.h"

namespace lowmem {

// Rows of a matrix as they lie in a file or buffer. No alignment.
struct WeightRows {
  DType dtype;
  const uint8_t* data;
  size_t row_bytes;  // from one row to the next
  size_t num_rows;
  size_t num_cols;
};

// Threads, and the floats they work on, on a cache line: MatMulScratch for each
// of them. A product uses it from beginning to end.
struct MatMulWorkers {
  ThreadPool& pool;
  absl::Span<float> scratch;
};

// Floats of work space a thread for any products with up to num_cols columns
// and up to num_tokens tokens: none for one token, 121 KiB at most. A multiple
// of a cache line.
size_t MatMulScratch(size_t num_cols, size_t num_tokens);

// out[t * out_stride + r] = dot(weights row r, x + t * x_stride), for all rows
// r and tokens t < num_tokens. Every weight byte is read once (a few times for
// more tokens than fit the inner caches).
//   x    [num_tokens, x_stride], num_cols of each row used
//   out  [num_tokens, out_stride], num_rows of each row written
// REQUIRES: TraitsOf(weights.dtype).decodable; num_cols is a multiple of its
// block; out does not overlap x; the workers' scratch is large enough. Memory:
// nothing from the heap, up to 4 KiB of stack a thread.
void MatMul(const WeightRows& weights, const float* x, size_t x_stride,
            size_t num_tokens, float* out, size_t out_stride,
            const MatMulWorkers& workers);

// One of several products with the same activations.
struct MatMulPart {
  WeightRows weights;
  float* out;  // as MatMul's
  size_t out_stride;
};

// MatMul for each part, in one loop over the rows of all: threads wait for each
// other once. REQUIRES: as MatMul; all have the same num_cols.
void MatMulAll(absl::Span<const MatMulPart> parts, const float* x,
               size_t x_stride, size_t num_tokens,
               const MatMulWorkers& workers);

// The dot product of two float32 vectors in the order above.
float Dot(const float* a, const float* b, size_t num_elements);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_MATMUL_H_
