// SPDX-License-Identifier: Apache-2.0
// Loops over float vectors: element by element, and folded into the 16 lanes.
// Compiled once per target. The last elements go through the same vector code,
// padded with zeros, so an element's result does not depend on its place.

#if defined(LOWMEM_QUANT_KERNELS_TRANSFORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_TRANSFORM_INL_H_
#undef LOWMEM_QUANT_KERNELS_TRANSFORM_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_TRANSFORM_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// `count` <= kVecLanes floats, then zeros.
HWY_INLINE FloatVec LoadPadded(const float* src, size_t count) {
  const FloatTag d;
  if (count == kVecLanes) return hn::LoadU(d, src);
  HWY_ALIGN float padded[kVecLanes] = {};
  std::memcpy(padded, src, count * sizeof(float));
  return hn::Load(d, padded);
}

// out[i] = f(in[i]...) for i < n; out may be one of the inputs.
template <class F, class... Inputs>
HWY_INLINE void Transform(size_t n, float* out, F f, const Inputs*... in) {
  const FloatTag d;
  size_t i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    hn::StoreU(f(hn::LoadU(d, in + i)...), d, out + i);
  }
  if (i == n) return;
  HWY_ALIGN float end[kVecLanes];
  hn::Store(f(LoadPadded(in + i, n - i)...), d, end);
  std::memcpy(out + i, end, (n - i) * sizeof(float));
}

// lanes = f(lanes, x) over groups of 16, the last padded with zeros.
template <class F>
HWY_INLINE Lanes Fold(const float* x, size_t n, Lanes lanes, F f) {
  const FloatTag d;
  const size_t num_whole = n - n % kNumLanes;
  for (size_t i = 0; i < num_whole; i += kNumLanes) {
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumVecs; ++v) {
      lanes.vec[v] = f(lanes.vec[v], hn::LoadU(d, x + i + v * kVecLanes));
    }
  }
  if (num_whole == n) return lanes;
  HWY_ALIGN float group[kNumLanes];
  CopyPadded(x + num_whole, n - num_whole, group);
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) {
    lanes.vec[v] = f(lanes.vec[v], hn::Load(d, group + v * kVecLanes));
  }
  return lanes;
}

// Largest value; NaN is passed over. Minus infinity for none.
HWY_INLINE float LargestOf(const float* x, size_t n) {
  const FloatTag d;
  const FloatVec lowest = hn::Set(d, -HUGE_VALF);
  FloatVec largest = lowest;
  size_t i = 0;
  for (; i + kVecLanes <= n; i += kVecLanes) {
    const FloatVec v = hn::LoadU(d, x + i);
    largest = hn::IfThenElse(hn::Gt(v, largest), v, largest);
  }
  HWY_ALIGN float rest[kVecLanes];
  hn::Store(largest, d, rest);
  float result = -HUGE_VALF;
  for (float v : rest) result = v > result ? v : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_TRANSFORM_INL_H_
