// SPDX-License-Identifier: Apache-2.0
// DotKeys and AddWeightedValues of quant/kv_rows.h, each compiled once per
// format of rows.
#include "quant/kv_rows.h"

#include "quant/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quant/kernels/kv_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "quant/kernels/add_values-inl.h"
#include "quant/kernels/dot_keys-inl.h"
#include "quant/kernels/kv_formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

void DotKeysOfFormat(KvFormat format, const GroupRows<const float>& q,
                     const uint8_t* keys, const uint8_t* next_keys,
                     size_t num_keys, float scale, float* out,
                     size_t out_stride) {
  switch (format) {
    case KvFormat::kF32:
      return DotKeysOnTarget<F32Rows>(q, keys, next_keys, num_keys, scale, out,
                                      out_stride);
    case KvFormat::kBF16:
      return DotKeysOnTarget<BF16Rows>(q, keys, next_keys, num_keys, scale, out,
                                       out_stride);
    case KvFormat::kQ8:
      return DotKeysOnTarget<Q8Rows>(q, keys, next_keys, num_keys, scale, out,
                                     out_stride);
  }
}

void AddValuesOfFormat(KvFormat format, const float* weights,
                       size_t weights_stride, const uint8_t* values,
                       const uint8_t* next_values, size_t num_values,
                       size_t begin, size_t end,
                       const GroupRows<float>& inout) {
  switch (format) {
    case KvFormat::kF32:
      return AddWeightedValuesOnTarget<F32Rows>(weights, weights_stride, values,
                                                next_values, num_values, begin,
                                                end, inout);
    case KvFormat::kBF16:
      return AddWeightedValuesOnTarget<BF16Rows>(weights, weights_stride,
                                                 values, next_values,
                                                 num_values, begin, end, inout);
    case KvFormat::kQ8:
      return AddWeightedValuesOnTarget<Q8Rows>(weights, weights_stride, values,
                                               next_values, num_values, begin,
                                               end, inout);
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

void DotKeys(KvFormat format, const GroupRows<const float>& q,
             const uint8_t* keys, const uint8_t* next_keys, size_t num_keys,
             float scale, float* out, size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(DotKeysOfFormat)
  (format, q, keys, next_keys, num_keys, scale, out, out_stride);
}

void AddWeightedValues(KvFormat format, const float* weights,
                       size_t weights_stride, const uint8_t* values,
                       const uint8_t* next_values, size_t num_values,
                       size_t begin, size_t end,
                       const GroupRows<float>& inout) {
  HWY_DYNAMIC_DISPATCH(AddValuesOfFormat)
  (format, weights, weights_stride, values, next_values, num_values, begin, end,
   inout);
}

}  // namespace lowmem
#endif  // HWY_ONCE
