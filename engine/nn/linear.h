// SPDX-License-Identifier: Apache-2.0
// Weights applied to activations, through leases: a tensor is used in as many
// pieces as its source hands out.

#ifndef LOWMEM_ENGINE_NN_LINEAR_H_
#define LOWMEM_ENGINE_NN_LINEAR_H_

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/nn/pass_context.h"
#include "storage/checkpoint.h"

namespace lowmem {

// Decodes a whole vector (a norm's weight, a bias) to the front of `out`.
// REQUIRES: out is at least as long.
// Errors: what the source returns.
absl::Status DecodeVector(PassContext& pass, TensorId tensor,
                          absl::Span<float> out);

// out = x * weight^T + bias.
//   weight   [rows, cols]
//   x        [num_tokens, cols]
//   out      [num_tokens, rows]; does not overlap x
//   scratch  at least rows, when there is a bias, which it then holds
// Errors: what the source returns; kCancelled, noticed between row ranges.
absl::Status Linear(PassContext& pass, TensorId weight,
                    std::optional<TensorId> bias, const float* x,
                    size_t num_tokens, absl::Span<float> scratch, float* out);

// normed = rms_norm(x) * weight, token by token.
//   x, normed  [num_tokens, dim]
//   scratch    at least dim
// Errors: what the source returns.
absl::Status NormTokens(PassContext& pass, TensorId weight, float epsilon,
                        size_t dim, const float* x, size_t num_tokens,
                        absl::Span<float> scratch, float* normed);

// inout += addend, both [num_tokens, width].
void AddTokens(const PassContext& pass, const float* addend, size_t num_tokens,
               size_t width, float* inout);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_LINEAR_H_
