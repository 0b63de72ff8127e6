// SPDX-License-Identifier: Apache-2.0
#include "quant/hadamard.h"

namespace lowmem {

size_t HadamardRun(size_t n) { return n & (~n + 1); }

void Hadamard(size_t n, float scale, float* inout) {
  const size_t run = HadamardRun(n);
  for (size_t half = 1; half < run; half *= 2) {
    for (size_t i = 0; i < n; i += 2 * half) {
      for (size_t k = i; k < i + half; ++k) {
        const float a = inout[k];
        const float b = inout[k + half];
        inout[k] = a + b;
        inout[k + half] = a - b;
      }
    }
  }
  for (size_t i = 0; i < n; ++i) inout[i] *= scale;
}

}  // namespace lowmem
