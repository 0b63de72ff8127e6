// SPDX-License-Identifier: Apache-2.0
// Rows of quant/kv_codec.h loaded as float32 vectors, bit-equal to DecodeKvRow.
// Compiled once per target. Each format has
//   RowBytes(n)            as KvRowBytes
//   Load(row, n, col, out) columns from `col` on, which is a multiple of as
//   many
//                          as `out` takes
//   LoadEnd(row, n, col)   columns [col, n), fewer than kVecLanes, then zeros
//   Dot(rows, x, n, sums)  sums[r] = dot(row r, x), in the order of matmul.h

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
#include "quant/kernels/row_group-inl.h"
#include "quant/kv_codec.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Numbers of W one behind the other, as weights are.
template <class W>
struct PlainRows {
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

  template <size_t kNumRows>
  static HWY_INLINE void Dot(const uint8_t* const (&rows)[kNumRows],
                             const float* x, size_t n,
                             float (&sums)[kNumRows]) {
    DotGroupOfRows<W>(rows, x, n, sums);
  }
};

using F32Rows = PlainRows<F32Weights>;
using BF16Rows = PlainRows<BF16Weights>;

struct Q8Rows {
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

  template <size_t kNumRows>
  static HWY_INLINE void Dot(const uint8_t* const (&rows)[kNumRows],
                             const float* x, size_t n,
                             float (&sums)[kNumRows]) {
    Lanes acc[kNumRows];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) acc[r] = ZeroLanes();

    const size_t num_whole = n - n % kKvQ8Block;
    for (size_t col = 0; col < num_whole; col += kKvQ8Block) {
      AddGroups<kKvQ8Block / kNumLanes>(rows, n, col, rows, col, x + col, acc);
    }
    if (num_whole != n) {
      const LastBlock<kNumRows> last(rows, x, n, num_whole);
      if (n - num_whole > kNumLanes) {
        AddGroups<kKvQ8Block / kNumLanes>(rows, n, num_whole, last.rows, 0,
                                          last.x, acc);
      } else {
        AddGroups<1>(rows, n, num_whole, last.rows, 0, last.x, acc);
      }
    }
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) sums[r] = SumOfLanes(acc[r]);
  }

 private:
  static_assert(kKvQ8Block == 2 * kNumLanes, "LastBlock has one or two groups");

  // The codes from `col` on of each row, and x from there, padded with zeros to
  // a block. The order of matmul.h has the groups of 16 that the row has, and
  // no more of them.
  template <size_t kNumRows>
  struct LastBlock {
    LastBlock(const uint8_t* const (&all)[kNumRows], const float* all_x,
              size_t n, size_t col) {
      std::memset(codes, 0, sizeof(codes));
      std::memset(x, 0, sizeof(x));
      for (size_t r = 0; r < kNumRows; ++r) {
        std::memcpy(codes[r], all[r] + col, n - col);
        rows[r] = codes[r];
      }
      std::memcpy(x, all_x + col, (n - col) * sizeof(float));
    }
    LastBlock(const LastBlock&) = delete;
    LastBlock& operator=(const LastBlock&) = delete;

    HWY_ALIGN float x[kKvQ8Block];
    uint8_t codes[kNumRows][kKvQ8Block];
    const uint8_t* rows[kNumRows];
  };

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

  // acc[r] += codes of row r from codes_ofs on times x, kNumGroups groups of 16
  // columns, under the scale of the block that `col` is in.
  template <size_t kNumGroups, size_t kNumRows>
  static HWY_INLINE void AddGroups(const uint8_t* const (&rows)[kNumRows],
                                   size_t n, size_t col,
                                   const uint8_t* const (&codes)[kNumRows],
                                   size_t codes_ofs, const float* x,
                                   Lanes (&acc)[kNumRows]) {
    FloatVec scales[kNumRows];
    LOWMEM_UNROLL
    for (size_t r = 0; r < kNumRows; ++r) scales[r] = Scale(rows[r], n, col);
    LOWMEM_UNROLL
    for (size_t v = 0; v < kNumGroups * kNumVecs; ++v) {
      const FloatVec xv = hn::LoadU(FloatTag(), x + v * kVecLanes);
      LOWMEM_UNROLL
      for (size_t r = 0; r < kNumRows; ++r) {
        const FloatVec w =
            hn::Mul(scales[r], Codes(codes[r] + codes_ofs + v * kVecLanes));
        FloatVec& sum = acc[r].vec[v % kNumVecs];
        sum = hn::MulAdd(w, xv, sum);
      }
    }
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_KV_FORMATS_INL_H_
