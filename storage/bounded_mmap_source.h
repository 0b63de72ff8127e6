// SPDX-License-Identifier: Apache-2.0
// WeightSource over mappings of which only a bounded part is in memory: the
// rows that a ResidencyPlan keeps stay mapped and populated, all others flow
// through a window that moves ahead of use, across the borders of layers, head
// and tokens. The bound holds for the process and for the page cache.

#ifndef LOWMEM_STORAGE_BOUNDED_MMAP_SOURCE_H_
#define LOWMEM_STORAGE_BOUNDED_MMAP_SOURCE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/base/memory_account.h"
#include "storage/checkpoint.h"
#include "storage/residency_plan.h"
#include "storage/weight_source.h"

namespace lowmem {

// Leases point into a mapping of the whole file, at the place that a tensor has
// in it. Any number of resident rows, but of streamed rows one lease at a time,
// and of a row that is looked up one at a time. Any order of use is right; that
// of the plan is fast. A single row that is not the next one counts as looked
// up, and leaves what was fetched ahead where it is.
// A page that is lost under a lease, because the file was truncated, kills the
// process with SIGBUS, as every mapping does.
class BoundedMmapSource : public WeightSource {
 public:
  // Asked of the files since the source was made, whole pages, what was fetched
  // ahead included and resident rows left out.
  virtual uint64_t streamed_bytes() const = 0;
};

// Empties the page cache of the files, fetches the resident rows in file order,
// then begins to fetch ahead. `progress` is called now and then with the bytes
// fetched so far and in all; when it returns a status other than OK, loading
// ends with it. Destroying the source leaves nothing in the page cache either.
// Memory: at most FootprintOfMapped(checkpoint, plan, window_bytes) at any
// moment, which is charged to `account`; some 100 bytes of heap a tensor that
// are not. What other processes map of the files is theirs, and where the page
// cache is the file itself (tmpfs) it cannot be given back. Errors:
// kResourceExhausted when `account` refuses; kInvalidArgument when the window
// is too small for the largest row or the plan is of another checkpoint;
// kUnavailable.
absl::StatusOr<std::unique_ptr<BoundedMmapSource>> NewBoundedMmapSource(
    const Checkpoint& checkpoint, const ResidencyPlan& plan,
    uint64_t window_bytes, MemoryAccount& account,
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>
        progress);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BOUNDED_MMAP_SOURCE_H_
