// SPDX-License-Identifier: Apache-2.0
// Rows of quant/kv_codec.h loaded as float32 vectors, bit-equal to DecodeKvRow.
// Compiled once per target. Each format has
//   kColumnBytes           from one column to the next
//   RowBytes(n)            as KvRowBytes
//   Load(row, n, col, out) columns from `col` on, which is a multiple of as
//   many
//                          as `out` takes
//   LoadEnd(row, n, col)   columns [col, n), fewer than kVecLanes, then zeros

#if defined(LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_
#undef LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/float_weights-inl.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/kv_codec.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Numbers of W one behind the other, as weights are.
template <class W>
struct PlainRows {
  static constexpr size_t kColumnBytes = W::kElementBytes;
  static HWY_INLINE size_t RowBytes(size_t n) { return n * W::kElementBytes; }

  template <size_t kNumColVecs>
  static HWY_INLINE void Load(const uint8_t* row, size_t, size_t col,
                              FloatVec (&out)[kNumColVecs]) {
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; ++v) {
      out[v] = W::Load(row + (col + v * kVecLanes) * W::kElementBytes);
    }
  }

  static HWY_INLINE FloatVec LoadEnd(const uint8_t* row, size_t n, size_t col) {
    uint8_t end[kVecLanes * W::kElementBytes] = {};
    std::memcpy(end, row + col * W::kElementBytes,
                (n - col) * W::kElementBytes);
    return W::Load(end);
  }
};

using F32Rows = PlainRows<F32Weights>;
using BF16Rows = PlainRows<BF16Weights>;

struct Q8Rows {
  static constexpr size_t kColumnBytes = 1;
  static HWY_INLINE size_t RowBytes(size_t n) {
    return n + 2 * hwy::DivCeil(n, kKvQ8Block);
  }

  template <size_t kNumColVecs>
  static HWY_INLINE void Load(const uint8_t* row, size_t n, size_t col,
                              FloatVec (&out)[kNumColVecs]) {
    // One load of a scale serves its whole block.
    constexpr size_t kSameScale = HWY_MIN(kNumColVecs, kKvQ8Block / kVecLanes);
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumColVecs; v += kSameScale) {
      const FloatVec scale = Scale(row, n, col + v * kVecLanes);
      LOWMEM_UNROLL
      for (size_t k = v; k < v + kSameScale; ++k) {
        out[k] = hn::Mul(scale, Codes(row + col + k * kVecLanes));
      }
    }
  }

  static HWY_INLINE FloatVec LoadEnd(const uint8_t* row, size_t n, size_t col) {
    uint8_t end[kVecLanes] = {};
    std::memcpy(end, row + col, n - col);
    return hn::Mul(Scale(row, n, col), Codes(end));
  }

 private:
  // Of the block that `col` is in.
  static HWY_INLINE FloatVec Scale(const uint8_t* row, size_t n, size_t col) {
    return hn::Set(FloatTag(),
                   BF16ToF32(LoadU16(row + n + 2 * (col / kKvQ8Block))));
  }

  static HWY_INLINE FloatVec Codes(const uint8_t* codes) {
    const hn::RebindToSigned<FloatTag> wide;
    return hn::ConvertTo(FloatTag(),
                         hn::PromoteTo(wide, LoadBytes<int8_t>(codes)));
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_
