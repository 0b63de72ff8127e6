// SPDX-License-Identifier: Apache-2.0
// The small integer scales of a superblock's groups, times the block's own.
// Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_GROUP_SCALES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_GROUP_SCALES_INL_H_
#undef LOWMEM_QUANT_KERNELS_GROUP_SCALES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_GROUP_SCALES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
template <class D>
HWY_INLINE void StoreScaled(D d, hn::Vec<D> bytes, FloatVec scale, float* out) {
  if constexpr (hn::MaxLanes(d) > kVecLanes) {
    const hn::Half<D> half;
    StoreScaled(half, hn::LowerHalf(half, bytes), scale, out);
    StoreScaled(half, hn::UpperHalf(half, bytes), scale,
                out + hn::MaxLanes(half));
  } else {
    const hn::Rebind<float, D> floats;
    const hn::Rebind<int32_t, D> wide;
    const auto factor = hn::Set(floats, hn::GetLane(scale));
    hn::Store(
        hn::Mul(factor, hn::ConvertTo(floats, hn::PromoteTo(wide, bytes))),
        floats, out);
  }
}
#endif

// Factors of 8 or 16 groups: signed bytes times a scale. A load from memory
// puts one in every lane at no cost in shuffles, of which decoders have many;
// the compiler would rather keep all in a register and take each out with two
// (matmul_bench, Q4_K, one token: 12.6 -> KKK GB/s).
class GroupScales {
 public:
  // Eight bytes, the lowest first.
  HWY_INLINE GroupScales(uint64_t bytes, FloatVec scale) {
#if HWY_TARGET == HWY_SCALAR
    for (size_t i = 0; i < 8; ++i) {
      factors_[i] = hn::GetLane(scale) *
                    static_cast<float>(static_cast<int8_t>(bytes >> (8 * i)));
    }
#else
    const hn::Simd<int8_t, 8, 0> d;
    const hn::Simd<uint64_t, 1, 0> word;
    StoreScaled(d, hn::BitCast(d, hn::Set(word, bytes)), scale, factors_);
#endif
    KeepInMemory();
  }
  // Sixteen, as signed codes.
  HWY_INLINE GroupScales(const Codes& codes, FloatVec scale) {
    const Lanes lanes = Scaled(codes, scale);
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumVecs; ++v) {
      hn::Store(lanes.vec[v], FloatTag(), factors_ + v * kVecLanes);
    }
    KeepInMemory();
  }
  GroupScales(const GroupScales&) = delete;
  GroupScales& operator=(const GroupScales&) = delete;

  HWY_INLINE FloatVec operator[](size_t group) const {
    return hn::Set(FloatTag(), in_memory_[group]);
  }

 private:
  HWY_INLINE void KeepInMemory() {
    asm("" : "=r"(in_memory_) : "0"(factors_), "m"(factors_));
  }

  HWY_ALIGN float factors_[kNumLanes];
  const float* in_memory_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_GROUP_SCALES_INL_H_
