// SPDX-License-Identifier: Apache-2.0
// Operations on float32 vectors between the matrix products, and on logits.
// Sums follow the order of matmul.h, and exp, erf, tanh, sin and cos are the
// same operations on every target, so results are bit-identical wherever fused
// multiply-add exists. No libm here. Pointers need no alignment; in and out may
// be the same pointer, not overlap otherwise. n may be 0 where nothing else is
// said.

#ifndef LOWMEM_QUANT_VECTOR_OPS_H_
#define LOWMEM_QUANT_VECTOR_OPS_H_

#include <cstddef>

namespace lowmem {

// out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i].
// Reference: transformers LlamaRMSNorm in float32.
void RmsNorm(const float* x, const float* weight, float epsilon, size_t n,
             float* out);

// out[i] = (x[i] - mean(x)) / sqrt(var(x) + epsilon) * weight[i] + bias[i], var
// the mean of the squares of x[i] - mean(x). `bias` may be nullptr: none.
// Reference: torch.nn.LayerNorm in float32.
void LayerNorm(const float* x, const float* weight, const float* bias,
               float epsilon, size_t n, float* out);

// inout[i] += addend[i].
void AddInPlace(const float* addend, size_t n, float* inout);

// Activations, in place or multiplied by the other half of a gated pair:
//   inout[i] = f(inout[i])
//   gate[i] = f(gate[i]) * up[i]
// Each f is right to the largest float; f(NaN) and f(-infinity) are NaN, the
// latter as in the reference, which multiplies by zero.

// f(v) = v / (1 + exp(-v)), within 3 ulps.
// Reference: torch.nn.functional.silu.
void SiluMul(const float* up, size_t n, float* gate);

// f(v) = v / 2 * (1 + tanh(sqrt(2 / pi) * (v + 0.044715 v^3))), off by at most
// 2^-22 |v|. Reference: torch.nn.functional.gelu(approximate='tanh').
void GeluTanh(size_t n, float* inout);
void GeluTanhMul(const float* up, size_t n, float* gate);

// f(v) = v / 2 * (1 + erf(v / sqrt(2))), off by at most 2^-22 |v|.
// Reference: torch.nn.functional.gelu.
void GeluErf(size_t n, float* inout);
void GeluErfMul(const float* up, size_t n, float* gate);

// inout = exp(inout - max) / sum. All are NaN where one is NaN or infinity, or
// all are minus infinity. REQUIRES: n > 0.
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

// Index of the first value above `threshold` at or behind `begin`; n for none.
// NaN is not above anything.
size_t FindAbove(const float* x, size_t begin, size_t n, float threshold);

// out[i] = (min(x[i], FLT_MAX) - largest) / temperature, and minus infinity for
// NaN: never NaN. Subtracting first keeps a small temperature from overflowing.
// REQUIRES: largest is finite, temperature above 0.
void ScaleLogits(const float* x, float largest, float temperature, size_t n,
                 float* out);

// Whether all values are finite.
bool AllFinite(const float* x, size_t n);

}  // namespace lowmem

#endif  // LOWMEM_QUANT_VECTOR_OPS_H_
