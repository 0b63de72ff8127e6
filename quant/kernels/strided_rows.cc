// SPDX-License-Identifier: Apache-2.0
// What attention does with pages of keys and values: DotStrided and WeightedSum
// of quant/vector_ops.h.
#include "quant/kernels/simd_targets.h"
#include "quant/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/strided_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/row_group-inl.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Keys are walked a fraction of their number apart, as rows are in dot_rows.cc.
// The last key stands in for those that a fraction lacks.
void DotStridedOnTarget(const float* q, const float* keys, size_t key_stride,
                        size_t num_keys, size_t n, float scale, float* out) {
  const size_t distance = hwy::DivCeil(num_keys, kRowsAtOnce);
  for (size_t i = 0; i < distance; ++i) {
    size_t key_idx[kRowsAtOnce];
    const uint8_t* rows[kRowsAtOnce];
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      key_idx[r] = HWY_MIN(r * distance + i, num_keys - 1);
      rows[r] =
          reinterpret_cast<const uint8_t*>(keys + key_idx[r] * key_stride);
    }
    float sums[kRowsAtOnce];
    DotGroupOfRows<F32Weights>(rows, q, n, sums);
    for (size_t r = 0; r < kRowsAtOnce; ++r) out[key_idx[r]] = scale * sums[r];
  }
}

// kNumColVecs vectors of columns stay in registers while all values pass.
template <size_t kNumColVecs>
HWY_INLINE void AddColumns(const float* weights, const float* values,
                           size_t value_stride, size_t num_values,
                           float* inout) {
  const FloatTag d;
  FloatVec sums[kNumColVecs];
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumColVecs; ++v) {
    sums[v] = hn::LoadU(d, inout + v * kVecLanes);
  }
  for (size_t i = 0; i < num_values; ++i) {
    const FloatVec weight = hn::Set(d, weights[i]);
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; ++v) {
      sums[v] = hn::MulAdd(
          weight, hn::LoadU(d, values + i * value_stride + v * kVecLanes),
          sums[v]);
    }
  }
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumColVecs; ++v) {
    hn::StoreU(sums[v], d, inout + v * kVecLanes);
  }
}

void WeightedSumOnTarget(const float* weights, const float* values,
                         size_t value_stride, size_t num_values, size_t n,
                         float* inout) {
  constexpr size_t kColVecs = 8;
  const FloatTag d;
  size_t j = 0;
  for (; j + kColVecs * kVecLanes <= n; j += kColVecs * kVecLanes) {
    AddColumns<kColVecs>(weights, values + j, value_stride, num_values,
                         inout + j);
  }
  for (; j + 4 * kVecLanes <= n; j += 4 * kVecLanes) {
    AddColumns<4>(weights, values + j, value_stride, num_values, inout + j);
  }
  for (; j + kVecLanes <= n; j += kVecLanes) {
    AddColumns<1>(weights, values + j, value_stride, num_values, inout + j);
  }
  if (j == n) return;
  FloatVec sum = LoadPadded(inout + j, n - j);
  for (size_t i = 0; i < num_values; ++i) {
    sum = hn::MulAdd(hn::Set(d, weights[i]),
                     LoadPadded(values + i * value_stride + j, n - j), sum);
  }
  HWY_ALIGN float end[kVecLanes];
  hn::Store(sum, d, end);
  std::memcpy(inout + j, end, (n - j) * sizeof(float));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(DotStridedOnTarget);
HWY_EXPORT(WeightedSumOnTarget);

void DotStrided(const float* q, const float* keys, size_t key_stride,
                size_t num_keys, size_t n, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(DotStridedOnTarget)
  (q, keys, key_stride, num_keys, n, scale, out);
}

void WeightedSum(const float* weights, const float* values, size_t value_stride,
                 size_t num_values, size_t n, float* inout) {
  HWY_DYNAMIC_DISPATCH(WeightedSumOnTarget)
  (weights, values, value_stride, num_values, n, inout);
}

}  // namespace lowmem
#endif  // HWY_ONCE
