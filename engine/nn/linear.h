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

struct Projection {
  TensorId weight;  // [rows, cols]
  std::optional<TensorId> bias;
  float* out;  // [num_tokens, rows]
};

// out = x * weight^T + bias for each projection. They have the same number of
// columns and are computed together where the source allows, else one after the
// other.
//   x        [num_tokens, cols]; no output overlaps it
//   scratch  at least rows of any that has a bias
// REQUIRES: at least one projection.
// Errors: what the source returns; kCancelled, noticed between row ranges.
absl::Status Linear(PassContext& pass, absl::Span<const Projection> projections,
                    const float* x, size_t num_tokens,
                    absl::Span<float> scratch);

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
