// SPDX-License-Identifier: Apache-2.0
// Marks what the shared library offers; everything else is hidden.

#ifndef LOWMEM_EXPORT_H_
#define LOWMEM_EXPORT_H_

#define LOWMEM_EXPORT __attribute__((visibility("default")))

#endif  // LOWMEM_EXPORT_H_
