// SPDX-License-Identifier: Apache-2.0
// The last step of the IQ decoders: small integers become floats under a scale.
// The step before works on eight bytes at a time in a 64-bit word.

#if defined(LOWMEM_QUANT_KERNELS_WRITE_SCALED_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_WRITE_SCALED_INL_H_
#undef LOWMEM_QUANT_KERNELS_WRITE_SCALED_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_WRITE_SCALED_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// out[i] = scale * values[i].
template <size_t kNum>
HWY_INLINE void WriteScaled(const int8_t* HWY_RESTRICT values, float scale,
                            float* HWY_RESTRICT out) {
  static_assert(kNum % 8 == 0);
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<int32_t, decltype(floats)> wide;
  const hn::Rebind<int8_t, decltype(floats)> narrow;
  const auto factor = hn::Set(floats, scale);
  for (size_t i = 0; i < kNum; i += hn::Lanes(floats)) {
    const auto value = hn::ConvertTo(
        floats, hn::PromoteTo(wide, hn::LoadU(narrow, values + i)));
    hn::StoreU(hn::Mul(factor, value), floats, out + i);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
