// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels run on.

#ifndef LOWMEM_QUANT_SIMD_TARGET_H_
#define LOWMEM_QUANT_SIMD_TARGET_H_

#include "absl/strings/string_view.h"

namespace lowmem {

struct SimdTarget {
  absl::string_view name;  // as users know it: "AVX2", "AVX-512", "NEON", ...
  // Whether multiply-add rounds once. Results of targets that have it are the
  // same bits; those of one that has not are so on that target alone.
  bool has_fused_multiply_add = false;
};

// The best one of this processor that was compiled. Thread-safe.
SimdTarget ChosenSimdTarget();

}  // namespace lowmem

#endif  // LOWMEM_QUANT_SIMD_TARGET_H_
