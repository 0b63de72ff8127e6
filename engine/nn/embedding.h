// SPDX-License-Identifier: Apache-2.0
// Tokens turned into the vectors that the first layer reads. Rows are looked up
// one at a time: the matrix may be a third of a small model, and a step needs
// few rows.

#ifndef LOWMEM_ENGINE_NN_EMBEDDING_H_
#define LOWMEM_ENGINE_NN_EMBEDDING_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/nn/pass_context.h"
#include "storage/checkpoint.h"

namespace lowmem {

// out [ids.size(), dim].
// REQUIRES: every id is below the number of rows.
// Errors: what the source returns; kCancelled.
absl::Status EmbedTokens(PassContext& pass, TensorId embedding,
                         absl::Span<const int32_t> ids, float* out);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_EMBEDDING_H_
