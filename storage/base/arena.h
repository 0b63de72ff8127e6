// SPDX-License-Identifier: Apache-2.0
// The working memory of a model: every buffer of a step has a name and a size
// that are known before the first token, all are cut from one block, and the
// block never grows.

#ifndef LOWMEM_STORAGE_BASE_ARENA_H_
#define LOWMEM_STORAGE_BASE_ARENA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// The list of buffers, made before any memory is taken. A pure value: adding up
// a plan is how a forecast is made.
class ArenaPlan {
 public:
  static constexpr uint64_t kBufferAlignmentBytes = 64;

  struct Buffer {
    std::string name;
    uint64_t offset_bytes;
    uint64_t size_bytes;
  };

  // Adds a buffer of `num_floats` float32 values and returns its index.
  // Errors: kResourceExhausted when the total overflows 63 bits.
  absl::StatusOr<size_t> AddFloats(std::string name, uint64_t num_floats);

  uint64_t total_bytes() const { return total_bytes_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::vector<Buffer> buffers_;
  uint64_t total_bytes_ = 0;
};

// Ownership: owns the block; spans are valid as long as the arena lives.
// Thread safety: const after creation; the floats are the caller's to guard.
// Memory: plan.total_bytes(), charged once.
class Arena {
 public:
  // Errors: kResourceExhausted, naming the largest buffer of the plan.
  static absl::StatusOr<Arena> Create(const ArenaPlan& plan,
                                      MemoryAccount& account);
  Arena() = default;

  // The floats of buffer `buffer_idx`, as ArenaPlan::AddFloats returned it.
  // REQUIRES: buffer_idx comes from the plan of this arena.
  absl::Span<float> Floats(size_t buffer_idx);
  uint64_t size_bytes() const { return block_.size_bytes(); }

 private:
  std::vector<ArenaPlan::Buffer> buffers_;
  AlignedBuffer block_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_ARENA_H_
