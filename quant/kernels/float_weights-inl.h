// SPDX-License-Identifier: Apache-2.0
// Stored F32, F16 and BF16 weights loaded as float32 vectors, bit-equal to
// quant/decode.h. Compiled once per target.
// Bytes are never reached through a pointer to a wider type: rows of a file
// have no alignment.

#if defined(LOWMEM_QUANT_KERNELS_FLOAT_WEIGHTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_FLOAT_WEIGHTS_INL_H_
#undef LOWMEM_QUANT_KERNELS_FLOAT_WEIGHTS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_FLOAT_WEIGHTS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// Loads lanes of T from bytes.
template <typename T>
HWY_INLINE hn::Vec<hn::Rebind<T, FloatTag>> LoadBytes(const uint8_t* src) {
  const hn::Rebind<T, FloatTag> d;
#if HWY_TARGET == HWY_SCALAR
  T value;
  std::memcpy(&value, src, sizeof(T));
  return hn::Set(d, value);
#else
  return hn::BitCast(d,
                     hn::LoadU(hn::Repartition<uint8_t, decltype(d)>(), src));
#endif
}

// Each type has the bytes of an element and a load of kVecLanes of them.
struct F32Weights {
  static constexpr size_t kElementBytes = 4;
  static HWY_INLINE FloatVec Load(const uint8_t* src) {
    return LoadBytes<float>(src);
  }
};

struct BF16Weights {
  static constexpr size_t kElementBytes = 2;
  static HWY_INLINE FloatVec Load(const uint8_t* src) {
    const hn::RebindToUnsigned<FloatTag> du;
    const auto bits = hn::PromoteTo(du, LoadBytes<uint16_t>(src));
    return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
  }
};

struct F16Weights {
  static constexpr size_t kElementBytes = 2;
  static HWY_INLINE FloatVec Load(const uint8_t* src) {
#if HWY_TARGET == HWY_SCALAR
    return hn::Set(FloatTag(), F16ToF32(LoadU16(src)));
#elif HWY_TARGET == HWY_SSE4
    // Highway's emulation takes infinity for a number. The exponent is moved to
    // its place and corrected by a product with 2^112, which is exact and
    // normalises denormals too.
    const FloatTag d;
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::RebindToSigned<FloatTag> di;
    const auto bits = hn::PromoteTo(du, LoadBytes<uint16_t>(src));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
    const auto scaled = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)),
                                hn::Set(d, 0x1p112f));
    const auto exponent_of_inf = hn::IfThenElseZero(
        hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7bff)),
        hn::Set(di, 0x7f800000));
    const auto sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
    return hn::Or(hn::Or(scaled, hn::BitCast(d, exponent_of_inf)),
                  hn::BitCast(d, sign));
#else
    const hn::Rebind<hwy::float16_t, FloatTag> dh;
    return hn::PromoteTo(FloatTag(), hn::BitCast(dh, LoadBytes<uint16_t>(src)));
#endif
  }
};

// The `count` < 16 columns from `col` on of each row, padded with zeros to a
// group.
template <class W, size_t kNumRows>
struct LastGroup {
  LastGroup(const uint8_t* const (&all)[kNumRows], size_t col, size_t count) {
    for (size_t r = 0; r < kNumRows; ++r) {
      std::memset(bytes[r], 0, sizeof(bytes[r]));
      std::memcpy(bytes[r], all[r] + col * W::kElementBytes,
                  count * W::kElementBytes);
      rows[r] = bytes[r];
    }
  }
  LastGroup(const LastGroup&) = delete;
  LastGroup& operator=(const LastGroup&) = delete;

  uint8_t bytes[kNumRows][kNumLanes * W::kElementBytes];
  const uint8_t* rows[kNumRows];
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_FLOAT_WEIGHTS_INL_H_
