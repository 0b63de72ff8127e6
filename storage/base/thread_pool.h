// SPDX-License-Identifier: Apache-2.0
// A fixed set of worker threads for loops over row ranges.

#ifndef LOWMEM_STORAGE_BASE_THREAD_POOL_H_
#define LOWMEM_STORAGE_BASE_THREAD_POOL_H_

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace lowmem {

// Thread safety: ParallelFor from one thread at a time, never from inside a
// body. Memory: no allocation per call.
class ThreadPool {
 public:
  // `num_threads` counts the calling thread, so 1 starts no worker.
  // `num_processors` is how many of them may run at a time, by affinity and by
  // quota; 0: what affinity allows.
  // Errors: kInvalidArgument for 0 or more than 1024; kResourceExhausted when
  // the system refuses a thread.
  static absl::StatusOr<std::unique_ptr<ThreadPool>> Create(
      size_t num_threads, size_t num_processors = 0);

  virtual ~ThreadPool() = default;
  virtual size_t num_threads() const = 0;
  // Whether threads that wait keep their processors for some microseconds
  // before they sleep: not where there are more threads than processors.
  virtual bool spins() const = 0;

  // Calls body(begin, end, thread_idx) over disjoint ranges that cover
  // [0, num_items), and returns when all are done. Ranges start at multiples of
  // `grain`. thread_idx < num_threads(). Which thread gets which range is not
  // fixed, so a body's result must depend on the range alone.
  virtual void ParallelFor(
      size_t num_items, size_t grain,
      absl::FunctionRef<void(size_t begin, size_t end, size_t thread_idx)>
          body) = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_THREAD_POOL_H_
