// SPDX-License-Identifier: Apache-2.0
// A file as streaming reads it: whole blocks into aligned memory, through a
// descriptor of its own, so that how this one is cached changes nothing for the
// other.

#ifndef LOWMEM_STORAGE_BLOCK_FILE_H_
#define LOWMEM_STORAGE_BLOCK_FILE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace lowmem {

enum class BlockCaching {
  kDirect,    // from the disk to the caller's memory, past the page cache
  kBuffered,  // through the page cache, without reading ahead
};

// Thread safety: thread-safe.
class BlockFile {
 public:
  // Offsets, lengths and memory are multiples of this. Disks with larger blocks
  // refuse the direct read by which OpenReadQueue tries them.
  static constexpr uint64_t kBlockBytes = 4096;

  virtual ~BlockFile() = default;

  // For io_uring; -1 where there is none.
  virtual int descriptor() const = 0;

  // Reads from `offset` on and returns how many bytes: fewer than asked for at
  // the end of the file, 0 beyond it, and fewer now and then elsewhere too.
  // REQUIRES: offset, out.data() and out.size() are multiples of kBlockBytes.
  // Errors: kUnavailable.
  virtual absl::StatusOr<size_t> ReadSome(uint64_t offset,
                                          absl::Span<uint8_t> out) const = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BLOCK_FILE_H_
