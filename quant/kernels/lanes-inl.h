// SPDX-License-Identifier: Apache-2.0
// The 16 virtual lanes in which every sum of the engine is formed (see
// quant/matmul.h), as one, two, four or sixteen vectors of the target. Compiled
// once per target.
// Invariant: lane l only ever sees columns l, l + 16, l + 32, ..., so the
// vectors of one set of lanes are independent, and any of them may be computed
// alone.

#if defined(LOWMEM_QUANT_KERNELS_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_LANES_INL_H_
#undef LOWMEM_QUANT_KERNELS_LANES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/unroll.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using FloatVec = hn::Vec<FloatTag>;

inline constexpr size_t kNumLanes = 16;
inline constexpr size_t kVecLanes = hn::MaxLanes(FloatTag());
inline constexpr size_t kNumVecs = kNumLanes / kVecLanes;

// What a prefetch brings.
inline constexpr size_t kCacheLineBytes = 64;

// Sum of a vector's lanes: halves are added until one lane is left.
template <class D>
HWY_INLINE float SumOfVector(D d, hn::Vec<D> v) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(d);
  return hn::GetLane(v);
#else
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    return SumOfVector(half,
                       hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    const hn::Vec<D> pairs = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(pairs, hn::Shuffle2301(pairs)));
  }
#endif
}

// a / b, rounded once. NEON of 32 bits cannot divide, and what Highway does
// instead is a few units off.
HWY_INLINE FloatVec Divide(FloatVec a, FloatVec b) {
#if HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_V7
  const FloatTag d;
  HWY_ALIGN float quotient[kVecLanes];
  HWY_ALIGN float divisor[kVecLanes];
  hn::Store(a, d, quotient);
  hn::Store(b, d, divisor);
  LOWMEM_UNROLL
  for (size_t i = 0; i < kVecLanes; ++i) quotient[i] /= divisor[i];
  return hn::Load(d, quotient);
#else
  return hn::Div(a, b);
#endif
}

struct Lanes {
  FloatVec vec[kNumVecs];
};

HWY_INLINE Lanes ZeroLanes() {
  Lanes lanes;
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) lanes.vec[v] = hn::Zero(FloatTag());
  return lanes;
}

// Halves are added until one vector is left.
HWY_INLINE FloatVec SumOfVectors(const Lanes& lanes) {
  FloatVec vec[kNumVecs];
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) vec[v] = lanes.vec[v];
  LOWMEM_UNROLL
  for (size_t half = kNumVecs / 2; half > 0; half /= 2) {
    LOWMEM_UNROLL
    for (size_t v = 0; v < half; ++v) vec[v] = hn::Add(vec[v], vec[v + half]);
  }
  return vec[0];
}

HWY_INLINE float SumOfLanes(const Lanes& lanes) {
  return SumOfVector(FloatTag(), SumOfVectors(lanes));
}

// The first `count` < 16 values of `src`, then zeros: the last group of a row
// whose length is no multiple of 16, without reading behind it.
HWY_INLINE void CopyPadded(const float* src, size_t count, float* group) {
  std::memset(group, 0, kNumLanes * sizeof(float));
  std::memcpy(group, src, count * sizeof(float));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_LANES_INL_H_
