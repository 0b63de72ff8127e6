// SPDX-License-Identifier: Apache-2.0
// Asks for huge pages under a large block of heap.

#ifndef LOWMEM_STORAGE_POSIX_HUGE_PAGES_H_
#define LOWMEM_STORAGE_POSIX_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>

namespace lowmem {

// A hint for page-aligned memory that is not touched yet. Only whole huge pages
// inside the block are backed so: it never holds more memory than without.
void AdviseHugePages(uint8_t* data, size_t size_bytes);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_POSIX_HUGE_PAGES_H_
