// SPDX-License-Identifier: Apache-2.0
// LOWMEM_UNROLL before a loop of at most 16 constant steps writes it out in
// full, so that arrays of vectors indexed by it live in registers.

#ifndef LOWMEM_QUANT_KERNELS_UNROLL_H_
#define LOWMEM_QUANT_KERNELS_UNROLL_H_

#if defined(__clang__)
#define LOWMEM_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define LOWMEM_UNROLL _Pragma("GCC unroll 16")
#else
#define LOWMEM_UNROLL
#endif

#endif  // LOWMEM_QUANT_KERNELS_UNROLL_H_
