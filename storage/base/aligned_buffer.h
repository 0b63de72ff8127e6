// SPDX-License-Identifier: Apache-2.0
// Owned bytes at a 4096-byte boundary, charged to an account: what a direct
// read of a disk and a vector load both accept.

#ifndef LOWMEM_STORAGE_BASE_ALIGNED_BUFFER_H_
#define LOWMEM_STORAGE_BASE_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// Ownership: owns its pages, which come straight from the system and go back to
// it when the buffer is destroyed. Movable. The bytes start as zero and take no
// memory before they are first touched.
// Memory: `size_bytes` rounded up to whole pages, charged to the given account.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignmentBytes = 4096;

  // Errors: kResourceExhausted when the account or the system refuses.
  static absl::StatusOr<AlignedBuffer> Allocate(uint64_t size_bytes,
                                                MemoryAccount& account);

  // The same for direct reads: from byte `head_bytes` on, which is placed at a
  // border of huge pages, neighbouring bytes are neighbours in physical memory
  // where the system gives that, so that a read is one transfer and not one for
  // each page. These bytes are touched, all in all no more memory than without
  // is held; what rounding up to a huge page takes for a moment must be allowed
  // by the account, or else the end of the buffer goes without.
  // REQUIRES: head_bytes is a multiple of kAlignmentBytes and at most
  // size_bytes.
  static absl::StatusOr<AlignedBuffer> AllocateContiguous(
      uint64_t size_bytes, uint64_t head_bytes, MemoryAccount& account);

  AlignedBuffer() = default;
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;
  ~AlignedBuffer();

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t size_bytes_ = 0;
  size_t mapped_bytes_ = 0;
  MemoryCharge charge_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_ALIGNED_BUFFER_H_
