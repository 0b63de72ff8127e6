// SPDX-License-Identifier: Apache-2.0
// Work space of exactly the size that a product asks for, on a cache line, so
// that the address sanitizer sees what is written behind it.

#ifndef LOWMEM_TESTS_SUPPORT_MATMUL_SCRATCH_H_
#define LOWMEM_TESTS_SUPPORT_MATMUL_SCRATCH_H_

#include <cstdlib>
#include <memory>

#include "absl/types/span.h"
#include "quant/matmul.h"
#include "storage/base/thread_pool.h"

namespace lowmem {

class MatMulScratchSpace {
 public:
  MatMulScratchSpace(size_t num_threads, size_t num_cols, size_t num_tokens)
      : num_floats_(num_threads * MatMulScratch(num_cols, num_tokens)),
        floats_(static_cast<float*>(
            std::aligned_alloc(64, num_floats_ * sizeof(float)))) {}

  absl::Span<float> floats() { return {floats_.get(), num_floats_}; }

 private:
  struct Free {
    void operator()(float* floats) const { std::free(floats); }
  };
  size_t num_floats_;
  std::unique_ptr<float, Free> floats_;
};

// MatMul with such a space.
inline void MatMulAlone(const WeightRows& weights, const float* x,
                        size_t x_stride, size_t num_tokens, float* out,
                        size_t out_stride, ThreadPool& pool) {
  MatMulScratchSpace scratch(pool.num_threads(), weights.num_cols, num_tokens);
  MatMul(weights, x, x_stride, num_tokens, out, out_stride,
         {pool, scratch.floats()});
}

}  // namespace lowmem

#endif  // LOWMEM_TESTS_SUPPORT_MATMUL_SCRATCH_H_
