// SPDX-License-Identifier: Apache-2.0
// Writes what the model computes on the way into a safetensors file, for
// comparison with a reference.

#ifndef LOWMEM_ENGINE_GENERATE_TRACE_H_
#define LOWMEM_ENGINE_GENERATE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/generate/engine_state.h"

namespace lowmem {

// Runs `ids` as one sequence and writes these F32 tensors to `out_path`:
//   hidden.0                 [num_tokens, dim]  after the embedding
//   hidden.1 .. hidden.N     [num_tokens, dim]  after each of N layers
//   hidden.norm              [num_tokens, dim]  after the final norm
//   logits                   [num_tokens, vocab_size]
// The file appears when it is complete.
//
// One pass over the sequence. Memory: keys and values. Errors: kInvalidArgument
// for no ids, or one outside the vocabulary; those of CheckSparesModel, since
// the model may lie where the file goes; kOutOfRange beyond the context;
// kCancelled; those of AtomicFile for the file.
absl::Status WriteTrace(EngineState& engine, absl::Span<const int32_t> ids,
                        const std::string& out_path,
                        const std::atomic<bool>* cancel);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_TRACE_H_
