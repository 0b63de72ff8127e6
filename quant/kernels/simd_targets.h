// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the kernels are compiled for. Included before any
// header of Highway in every file that includes one.
//
// x86: AVX3 (AVX-512), AVX2, SSE4 and a scalar fallback, chosen when the
// program runs. SSSE3 is left out: hardly any processor has it without SSE4.
//
// ARM: what the compiler was told to compile for, chosen then. Of 64 bits that
// is NEON, which every such processor has. Of 32 bits it is NEON with VFPv4
// (-mfpu=neon-vfpv4), or scalar code where fused multiply-add is missing. When
// the program runs, Highway 1.0.3 would ask for AES, which a Raspberry Pi 4
// lacks, or find nothing on 32 bits, and fall to scalar code.

#ifndef LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_
#define LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_

#ifdef HIGHWAY_HWY_DETECT_TARGETS_H_
#error "include simd_targets.h before any header of Highway"
#endif

#if defined(__aarch64__) || defined(__arm__)
#define HWY_COMPILE_ONLY_STATIC
#define TOOLCHAIN_MISS_SYS_AUXV_H
#if defined(__arm__) && !defined(__ARM_FEATURE_FMA)
#define HWY_DISABLED_TARGETS HWY_NEON
#else
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
// By this name Highway asks for fused multiply-add of 32-bit NEON, and takes a
// product and a sum without it; GCC does not define it.
#if defined(__ARM_FEATURE_FMA) && !defined(__ARM_VFPV4__)
#define __ARM_VFPV4__ 1
#endif
#else
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif

#endif  // LOWMEM_QUANT_KERNELS_SIMD_TARGETS_H_
