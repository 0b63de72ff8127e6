// SPDX-License-Identifier: Apache-2.0
// The last step of most decoders: small integers become floats under a scale.
// The step before works on eight bytes at a time in a 64-bit word.

#if defined(LOWMEM_QUANT_WRITE_SCALED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_WRITE_SCALED_INL_H_
#undef LOWMEM_QUANT_WRITE_SCALED_INL_H_
#else
#define LOWMEM_QUANT_WRITE_SCALED_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A byte in each of the eight places.
constexpr uint64_t EveryByte(uint64_t byte) {
  return byte * 0x0101010101010101ull;
}

HWY_INLINE uint64_t LoadWord(const void* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

HWY_INLINE void StoreWord(uint64_t word, int8_t* values) {
  std::memcpy(values, &word, sizeof(word));
}

// Subtracts kOffset from each byte. The sum stays within its byte, so that
// nothing carries into the next. REQUIRES: each byte is below 128 + kOffset.
template <uint64_t kOffset>
HWY_INLINE uint64_t Centre(uint64_t word) {
  static_assert(kOffset <= 128);
  return (word + EveryByte(128 - kOffset)) ^ EveryByte(128);
}

// out[i] = scale * values[i].
template <size_t kNum>
HWY_INLINE void WriteScaled(const int8_t* HWY_RESTRICT values, float scale,
                            float* HWY_RESTRICT out) {
  static_assert(kNum % 8 == 0);
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<int32_t, decltype(floats)> wide;
  const hn::Rebind<int8_t, decltype(floats)> narrow;
  const auto factor = hn::Set(floats, scale);
  for (size_t i = 0; i < kNum; i += hn::Lanes(floats)) {
    const auto value = hn::ConvertTo(
        floats, hn::PromoteTo(wide, hn::LoadU(narrow, values + i)));
    hn::StoreU(hn::Mul(factor, value), floats, out + i);
  }
}

// out[i] = scale * values[i] + addend, rounded after each of the two.
template <size_t kNum>
HWY_INLINE void WriteScaled(const int8_t* HWY_RESTRICT values, float scale,
                            float addend, float* HWY_RESTRICT out) {
  static_assert(kNum % 8 == 0);
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<int32_t, decltype(floats)> wide;
  const hn::Rebind<int8_t, decltype(floats)> narrow;
  const auto factor = hn::Set(floats, scale);
  const auto summand = hn::Set(floats, addend);
  for (size_t i = 0; i < kNum; i += hn::Lanes(floats)) {
    const auto value = hn::ConvertTo(
        floats, hn::PromoteTo(wide, hn::LoadU(narrow, values + i)));
    hn::StoreU(hn::Add(hn::Mul(factor, value), summand), floats, out + i);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
