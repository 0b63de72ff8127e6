// SPDX-License-Identifier: Apache-2.0
// DotKeys and AddWeightedValues of quant/kv_rows.h, each compiled once per
// format of rows.
#include "quant/kv_rows.h"

#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/kv_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/kv_formats-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kernels/row_group-inl.h"
#include "quant/kernels/transform-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Keys are walked a fraction of their number apart, as rows are in dot_rows.cc.
// The last key stands in for those that a fraction lacks.
template <class Format>
void DotKeysOnTarget(const float* q, const uint8_t* keys, size_t num_keys,
                     size_t n, float scale, float* out) {
  const size_t row_bytes = Format::RowBytes(n);
  const size_t distance = hwy::DivCeil(num_keys, kRowsAtOnce);
  for (size_t i = 0; i < distance; ++i) {
    size_t key_idx[kRowsAtOnce];
    const uint8_t* rows[kRowsAtOnce];
    for (size_t r = 0; r < kRowsAtOnce; ++r) {
      key_idx[r] = HWY_MIN(r * distance + i, num_keys - 1);
      rows[r] = keys + key_idx[r] * row_bytes;
    }
    float sums[kRowsAtOnce];
    Format::Dot(rows, q, n, sums);
    for (size_t r = 0; r < kRowsAtOnce; ++r) out[key_idx[r]] = scale * sums[r];
  }
}

// kNumColVecs vectors of columns from `col` on stay in registers while all
// values pass.
template <class Format, size_t kNumColVecs>
HWY_INLINE void AddColumns(const float* weights, const uint8_t* values,
                           size_t num_values, size_t n, size_t col,
                           float* inout) {
  const FloatTag d;
  const size_t row_bytes = Format::RowBytes(n);
  FloatVec sums[kNumColVecs];
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumColVecs; ++v) {
    sums[v] = hn::LoadU(d, inout + col + v * kVecLanes);
  }
  for (size_t i = 0; i < num_values; ++i) {
    const FloatVec weight = hn::Set(d, weights[i]);
    const uint8_t* row = values + i * row_bytes;
    FloatVec columns[kNumColVecs];
    Format::Load(row, n, col, columns);
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; ++v) {
      sums[v] = hn::MulAdd(weight, columns[v], sums[v]);
    }
  }
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumColVecs; ++v) {
    hn::StoreU(sums[v], d, inout + col + v * kVecLanes);
  }
}

template <class Format>
void AddWeightedValuesOnTarget(const float* weights, const uint8_t* values,
                               size_t num_values, size_t n, float* inout) {
  constexpr size_t kColVecs = 8;
  const FloatTag d;
  size_t j = 0;
  for (; j + kColVecs * kVecLanes <= n; j += kColVecs * kVecLanes) {
    AddColumns<Format, kColVecs>(weights, values, num_values, n, j, inout);
  }
  for (; j + 4 * kVecLanes <= n; j += 4 * kVecLanes) {
    AddColumns<Format, 4>(weights, values, num_values, n, j, inout);
  }
  for (; j + kVecLanes <= n; j += kVecLanes) {
    AddColumns<Format, 1>(weights, values, num_values, n, j, inout);
  }
  if (j == n) return;
  FloatVec sum = LoadPadded(inout + j, n - j);
  for (size_t i = 0; i < num_values; ++i) {
    const uint8_t* row = values + i * Format::RowBytes(n);
    sum = hn::MulAdd(hn::Set(d, weights[i]), Format::LoadEnd(row, n, j), sum);
  }
  HWY_ALIGN float end[kVecLanes];
  hn::Store(sum, d, end);
  std::memcpy(inout + j, end, (n - j) * sizeof(float));
}

void DotKeysOfFormat(KvFormat format, const float* q, const uint8_t* keys,
                     size_t num_keys, size_t n, float scale, float* out) {
  switch (format) {
    case KvFormat::kF32:
      return DotKeysOnTarget<F32Rows>(q, keys, num_keys, n, scale, out);
    case KvFormat::kBF16:
      return DotKeysOnTarget<BF16Rows>(q, keys, num_keys, n, scale, out);
    case KvFormat::kQ8:
      return DotKeysOnTarget<Q8Rows>(q, keys, num_keys, n, scale, out);
  }
}

void AddValuesOfFormat(KvFormat format, const float* weights,
                       const uint8_t* values, size_t num_values, size_t n,
                       float* inout) {
  switch (format) {
    case KvFormat::kF32:
      return AddWeightedValuesOnTarget<F32Rows>(weights, values, num_values, n,
                                                inout);
    case KvFormat::kBF16:
      return AddWeightedValuesOnTarget<BF16Rows>(weights, values, num_values, n,
                                                 inout);
    case KvFormat::kQ8:
      return AddWeightedValuesOnTarget<Q8Rows>(weights, values, num_values, n,
                                               inout);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lowmem {

HWY_EXPORT(DotKeysOfFormat);
HWY_EXPORT(AddValuesOfFormat);

void DotKeys(KvFormat format, const float* q, const uint8_t* keys,
             size_t num_keys, size_t n, float scale, float* out) {
  HWY_DYNAMIC_DISPATCH(DotKeysOfFormat)
  (format, q, keys, num_keys, n, scale, out);
}

void AddWeightedValues(KvFormat format, const float* weights,
                       const uint8_t* values, size_t num_values, size_t n,
                       float* inout) {
  HWY_DYNAMIC_DISPATCH(AddValuesOfFormat)
  (format, weights, values, num_values, n, inout);
}

}  // namespace lowmem
#endif  // HWY_ONCE
