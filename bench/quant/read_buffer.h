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

inline absl::StatusOr<AlignedBuffer> FilledBuffer(size_t size_bytes,
                                                  Pages pages, uint8_t byte) {
  static auto* const account =
      new MemoryAccount("bench", MemoryAccount::kUnlimited, nullptr);
  LOWMEM_ASSIGN_OR_RETURN(AlignedBuffer buffer,
                          AlignedBuffer::Allocate(size_bytes, *account));
  if (pages == Pages::kHuge) AdviseHugePages(buffer.data(), size_bytes);
#ifdef MADV_NOHUGEPAGE
  if (pages == Pages::kSingle) {
    madvise(buffer.data(), size_bytes, MADV_NOHUGEPAGE);
  }
#endif
  std::fill_n(buffer.data(), size_bytes, byte);
  return buffer;
}

// The same for all that ask for the same, one at a time: the bytes may be most
// of the machine's memory. Empty where there is none.
inline const AlignedBuffer& SharedBuffer(size_t size_bytes, Pages pages) {
  static auto* const buffer = new AlignedBuffer;
  static Pages held = pages;
  if (buffer->size_bytes() != size_bytes || held != pages) {
    *buffer = AlignedBuffer();
    absl::StatusOr<AlignedBuffer> filled = FilledBuffer(size_bytes, pages, 1);
    if (filled.ok()) *buffer = *std::move(filled);
    held = pages;
  }
  return *buffer;
}

}  // namespace lowmem::bench

#endif  // LOWMEM_BENCH_QUANT_READ_BUFFER_H_
