// SPDX-License-Identifier: Apache-2.0
// The Walsh-Hadamard transform: an orthogonal map but for a factor, so that dot
// products of transformed vectors are those of the vectors. It spreads one
// large element over all, which makes vectors with outliers fit for few bits.
// Invariant: plain additions in a fixed order, the same on every target.

#ifndef LOWMEM_QUANT_HADAMARD_H_
#define LOWMEM_QUANT_HADAMARD_H_

#include <cstddef>

namespace lowmem {

// Elements that are transformed together in a vector of n: the largest power of
// two that divides n. REQUIRES: n > 0.
size_t HadamardRun(size_t n);

// Transforms each run of HadamardRun(n) elements in place: inout = scale * H
// inout, where H is the symmetric matrix of +1 and -1 with H H = HadamardRun(n)
// times the identity. REQUIRES: n > 0.
void Hadamard(size_t n, float scale, float* inout);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_HADAMARD_H_
