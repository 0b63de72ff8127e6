// SPDX-License-Identifier: Apache-2.0
// What every part of a forward pass works with: where weights come from, who
// computes, and whether to go on.

#ifndef LOWMEM_ENGINE_NN_PASS_CONTEXT_H_
#define LOWMEM_ENGINE_NN_PASS_CONTEXT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "storage/base/thread_pool.h"
#include "storage/checkpoint.h"
#include "storage/weight_source.h"

namespace lowmem {

// Consecutive tokens that go through a layer together.
struct Chunk {
  uint32_t first_pos = 0;
  uint32_t num_tokens = 0;
};

// Thread safety: Cancelled from any thread, all else from the one that runs the
// pass. Lifetime: everything referred to must outlive it.
struct PassContext {
  const Checkpoint& checkpoint;
  WeightSource& source;
  ThreadPool& pool;
  // As MatMulWorkers wants it, for the widest matrix and as many tokens as a
  // chunk has.
  absl::Span<float> matmul_scratch;
  const std::atomic<bool>* cancel = nullptr;  // may be nullptr
  uint64_t weight_bytes_read = 0;

  bool Cancelled() const {
    return cancel != nullptr && cancel->load(std::memory_order_relaxed);
  }
  // Errors: kCancelled.
  absl::Status CheckCancelled() const {
    return Cancelled() ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

  // Runs body(token_idx) for each token, in parallel where there are enough of
  // them to pay for it: the vector operations between two products take about a
  // microsecond a token.
  void ForEachToken(size_t num_tokens,
                    absl::FunctionRef<void(size_t token_idx)> body) const {
    constexpr size_t kGrainTokens = 8;
    pool.ParallelFor(num_tokens, kGrainTokens,
                     [&](size_t begin, size_t end, size_t) {
                       for (size_t t = begin; t < end; ++t) body(t);
                     });
  }
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_NN_PASS_CONTEXT_H_
