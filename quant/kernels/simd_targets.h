// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for. Included before any
// header of Highway in every file that includes one.
//
// x86: AVX3 (AVX-512), AVX2, SSE4 and a scalar fallback, chosen when the
// program runs. SSSE3 is left out: hardly any processor has it without SSE4.
//
// aarch64: NEON, which every such processor has, chosen when compiling. Highway
// 1.0.3 would ask for AES when the program runs, which a Raspberry Pi 4 lacks,
// and fall to scalar code.

#ifndef LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_
#define LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_

#ifdef HIGHWAY_HWY_DETECT_TARGETS_H_
#error "include simd_targets.h before any header of Highway"
#endif

#if defined(__aarch64__)
#define HWY_COMPILE_ONLY_STATIC
#define TOOLCHAIN_MISS_SYS_AUXV_H
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#else
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif

#endif  // LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_
