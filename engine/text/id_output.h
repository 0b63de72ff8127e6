// SPDX-License-Identifier: Apache-2.0
// Token ids on their way out of a text: no more than asked for, charged before
// they are taken.

#ifndef LOWMEM_ENGINE_TEXT_ID_OUTPUT_H_
#define LOWMEM_ENGINE_TEXT_ID_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// Thread safety: one thread at a time. Lifetime: `account` outlives it.
// Memory: four bytes an id, charged in blocks as they come; room for more than
// that is set aside but not touched.
class IdOutput {
 public:
  // `account` may be nullptr.
  IdOutput(size_t max_ids, MemoryAccount* account)
      : max_ids_(max_ids), account_(account) {}

  // Sets room aside for `num_ids`, so that what comes need not be moved; of no
  // consequence when it is too little.
  void SetAside(size_t num_ids);

  // Makes sure that `num_ids` more may be added.
  // Errors: kOutOfRange when they are more than max_ids; kResourceExhausted.
  absl::Status MakeRoom(size_t num_ids);
  // REQUIRES: there is room.
  void Add(int32_t id) { ids_.push_back(id); }

  absl::Status Append(absl::Span<const int32_t> ids);
  // Once more what stands at [begin, begin + count). REQUIRES: it is there.
  absl::Status AppendAgain(size_t begin, size_t count);

  // kOutOfRange when at least `num_ids` more will come and are too many.
  absl::Status CheckRoom(size_t num_ids) const;

  size_t size() const { return ids_.size(); }
  std::vector<int32_t> Take() && { return std::move(ids_); }

 private:
  const size_t max_ids_;
  MemoryAccount* const account_;
  MemoryCharge charge_;
  std::vector<int32_t> ids_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_ID_OUTPUT_H_
