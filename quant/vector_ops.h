// SPDX-License-Identifier: Apache-2.0
// Operations on float32 vectors between the matrix products. Sums follow the
// order of matmul.h, and exp, sin and cos are the same operations on every
// target, so results are bit-identical wherever fused multiply-add exists. No
// libm here. Pointers need no alignment; in and out may be the same pointer,
// not overlap otherwise.

#ifndef LOWMEM_QUANT_VECTOR_OPS_H_
#define LOWMEM_QUANT_VECTOR_OPS_H_

#include <cstddef>

namespace lowmem {

// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i].
// Reference: transformers LlamaRMSNorm in float32.
void RmsNorm(const float* x, const float* weight, float epsilon, size_t n,
             float* out);

// inout[i] += addend[i].
void AddInPlace(const float* addend, size_t n, float* inout);

// gate[i] = silu(gate[i]) * up[i], silu(v) = v / (1 + exp(-v)).
void SiluMul(const float* up, size_t n, float* gate);

// inout = exp(inout - max) / sum. Returns nothing; NaN in gives NaN out.
// REQUIRES: n > 0.
void Softmax(size_t n, float* inout);

// inout[i] += scale * x[i], fused.
void ScaleAdd(float scale, const float* x, size_t n, float* inout);

// Cosines and sines of position * inv_freq[i], i < num_pairs, the product
// rounded to float32 first, as the reference does; both multiplied by `scale`
// (1 but for yarn and longrope). Relative error of each value below 2^-21.
void RopeAngles(float position, const float* inv_freq, size_t num_pairs,
                float scale, float* cos_out, float* sin_out);

// Rotates one head in place. `num_pairs` pairs: element i with i + num_pairs
// (halves, as Hugging Face stores them), or 2i with 2i + 1 (neighbours, as
// GGUF's llama does).
void RopeHalves(const float* cos, const float* sin, size_t num_pairs,
                float* head);
void RopeNeighbours(const float* cos, const float* sin, size_t num_pairs,
                    float* head);

// Index of the largest value, the first of equals; NaN never wins.
// REQUIRES: n > 0.
size_t ArgMax(const float* x, size_t n);

// Whether all values are finite.
bool AllFinite(const float* x, size_t n);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_VECTOR_OPS_H_
