// SPDX-License-Identifier: Apache-2.0
#include "quant/simd_target.h"

#include "absl/strings/match.h"
#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/simd_target.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

SimdTarget ThisTarget() {
  const absl::string_view name = hwy::TargetName(HWY_TARGET);
  // Highway counts AVX-512 as the third AVX.
  return {absl::StartsWith(name, "AVX3") ? "AVX-512" : name,
          HWY_NATIVE_FMA != 0};
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(ThisTarget);

SimdTarget ChosenSimdTarget() { return HWY_DYNAMIC_DISPATCH(ThisTarget)(); }

}  // namespace lowmem
#endif  // HWY_ONCE
