// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: RopeHalves and RopeNeighbours of
// quant/vector_ops.h.
#include <cstring>

#include "quant/kernels/simd_targets.h"
#include "quant/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/rotary.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// a[i], b[i] = a * cos - b * sin, b * cos + a * sin.
HWY_INLINE void Rotate(const float* cos, const float* sin, size_t num_pairs,
                       float* a, float* b) {
  const FloatTag d;
  for (size_t i = 0; i < num_pairs; i += kVecLanes) {
    const size_t count = HWY_MIN(kVecLanes, num_pairs - i);
    const FloatVec c = LoadPadded(cos + i, count);
    const FloatVec s = LoadPadded(sin + i, count);
    const FloatVec av = LoadPadded(a + i, count);
    const FloatVec bv = LoadPadded(b + i, count);
    HWY_ALIGN float rotated[2][kVecLanes];
    hn::Store(hn::NegMulAdd(bv, s, hn::Mul(av, c)), d, rotated[0]);
    hn::Store(hn::MulAdd(av, s, hn::Mul(bv, c)), d, rotated[1]);
    std::memcpy(a + i, rotated[0], count * sizeof(float));
    std::memcpy(b + i, rotated[1], count * sizeof(float));
  }
}

void RopeHalvesOnTarget(const float* cos, const float* sin, size_t num_pairs,
                        float* head) {
  Rotate(cos, sin, num_pairs, head, head + num_pairs);
}

// Pairs are drawn apart, a vector at a time, so that both forms share one
// rotation.
void RopeNeighboursOnTarget(const float* cos, const float* sin,
                            size_t num_pairs, float* head) {
  float first[kVecLanes];
  float second[kVecLanes];
  for (size_t i = 0; i < num_pairs; i += kVecLanes) {
    const size_t count = HWY_MIN(kVecLanes, num_pairs - i);
    for (size_t k = 0; k < count; ++k) {
      first[k] = head[2 * (i + k)];
      second[k] = head[2 * (i + k) + 1];
    }
    Rotate(cos + i, sin + i, count, first, second);
    for (size_t k = 0; k < count; ++k) {
      head[2 * (i + k)] = first[k];
      head[2 * (i + k) + 1] = second[k];
    }
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(RopeHalvesOnTarget);
HWY_EXPORT(RopeNeighboursOnTarget);

void RopeHalves(const float* cos, const float* sin, size_t num_pairs,
                float* head) {
  HWY_DYNAMIC_DISPATCH(RopeHalvesOnTarget)(cos, sin, num_pairs, head);
}

void RopeNeighbours(const float* cos, const float* sin, size_t num_pairs,
                    float* head) {
  HWY_DYNAMIC_DISPATCH(RopeNeighboursOnTarget)(cos, sin, num_pairs, head);
}

}  // namespace lowmem
#endif  // HWY_ONCE
