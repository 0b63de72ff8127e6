// SPDX-License-Identifier: Apache-2.0
#include "storage/posix_huge_pages.h"

#include <sys/mman.h>

namespace lowmem {

void AdviseHugePages(uint8_t* data, size_t size_bytes) {
#ifdef MADV_HUGEPAGE
  if (size_bytes > 0) madvise(data, size_bytes, MADV_HUGEPAGE);
#else
  static_cast<void>(data);
  static_cast<void>(size_bytes);
#endif
}

}  // namespace lowmem
