// SPDX-License-Identifier: Apache-2.0
// Memory as the engine has weights in it, filled with one byte.

#ifndef LOWMEM_BENCH_QUANT_READ_BUFFER_H_
#define LOWMEM_BENCH_QUANT_READ_BUFFER_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"
#include "storage/base/status_macros.h"
#include "storage/posix_huge_pages.h"

namespace lowmem::bench {

enum class Pages {
  kHuge,    // where the system gives them: heap that weights are copied to
  kSingle,  // a mapping of a file
};

// Ownership: the bytes are the caller's. The account outlives them.
inline absl::StatusOr<AlignedBuffer> FilledBuffer(size_t size_bytes,
                                                  Pages pages,
                                                  MemoryAccount& account,
                                                  uint8_t byte) {
  LOWMEM_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::Allocate(size_bytes, account));
  if (pages == Pages::kHuge) AdviseHugePages(buffer.data(), size_bytes);
#ifdef MADV_NOHUGEPAGE
  if (pages == Pages::kSingle) {
    madvise(buffer.data(), size_bytes, MADV_NOHUGEPAGE);
  }
#endif
  std::fill_n(buffer.data(), size_bytes, byte);
  return buffer;
}

}  // namespace lowmem::bench

#endif  // LOWMEM_BENCH_QUANT_READ_BUFFER_H_
