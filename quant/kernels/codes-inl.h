// SPDX-License-Identifier: Apache-2.0
// Sixteen small integers of a block type on their way to being weights: one
// group of columns. Compiled once per target.
// A code takes a 32-bit lane where one vector holds the group (AVX-512), a byte
// elsewhere, which keeps narrow vectors full until the last step. Codes are
// below 128 in magnitude and negative only where a function says so.

#if defined(LOWMEM_QUANT_KERNELS_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_CODES_INL_H_
#undef LOWMEM_QUANT_KERNELS_CODES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"
#include "quant/scalar_convert.h"
#include "quant/word_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR

// Loops over an array: the compiler makes words of them.
struct Codes {
  int8_t value[kNumLanes];
};

template <class F>
HWY_INLINE Codes MakeCodes(F f) {
  Codes result;
  for (size_t i = 0; i < kNumLanes; ++i) {
    result.value[i] = static_cast<int8_t>(f(i));
  }
  return result;
}

HWY_INLINE Codes LoadCodes(const uint8_t* src) {
  return MakeCodes([src](size_t i) { return src[i]; });
}

HWY_INLINE Codes LoadSignedCodes(const uint8_t* src) { return LoadCodes(src); }

template <int kShift, int kMask>
HWY_INLINE Codes Bits(const Codes& codes) {
  return MakeCodes([&](size_t i) {
    return (static_cast<uint8_t>(codes.value[i]) >> kShift) & kMask;
  });
}

template <int kFrom, int kTo, int kMask>
HWY_INLINE Codes MovedBits(const Codes& codes) {
  return MakeCodes([&](size_t i) {
    return ((static_cast<uint8_t>(codes.value[i]) >> kFrom) & kMask) << kTo;
  });
}

HWY_INLINE Codes Join(const Codes& a, const Codes& b) {
  return MakeCodes([&](size_t i) { return a.value[i] | b.value[i]; });
}

template <int kBit, size_t kGroup>
HWY_INLINE Codes WithBit(const Codes& codes, const uint8_t* bits) {
  return MakeCodes([&](size_t i) {
    const int bit = (bits[2 * kGroup + i / 8] >> (i % 8)) & 1;
    return codes.value[i] | (bit << kBit);
  });
}

template <int kOffset>
HWY_INLINE Codes Less(const Codes& codes) {
  return MakeCodes([&](size_t i) { return codes.value[i] - kOffset; });
}

HWY_INLINE Codes LookUp(const int8_t* table, const Codes& nibbles) {
  return MakeCodes([&](size_t i) { return table[nibbles.value[i]]; });
}

HWY_INLINE Lanes ToFloats(const Codes& codes) {
  Lanes lanes;
  for (size_t i = 0; i < kNumLanes; ++i) {
    lanes.vec[i] = hn::Set(FloatTag(), static_cast<float>(codes.value[i]));
  }
  return lanes;
}

#else

#if HWY_TARGET == HWY_AVX3
using CodeTag = hn::RebindToSigned<FloatTag>;
#else
using CodeTag = hn::Full128<uint8_t>;
#endif
using Codes = hn::Vec<CodeTag>;

// 16 bytes, 0 to 255: their bits are meant.
HWY_INLINE Codes LoadCodes(const uint8_t* src) {
#if HWY_TARGET == HWY_AVX3
  return hn::PromoteTo(CodeTag(), hn::LoadU(hn::Full128<uint8_t>(), src));
#else
  return hn::LoadU(CodeTag(), src);
#endif
}

// 16 bytes that are signed codes, whole.
HWY_INLINE Codes LoadSignedCodes(const uint8_t* src) {
#if HWY_TARGET == HWY_AVX3
  const hn::Full128<uint8_t> bytes;
  const hn::Full128<int8_t> values;
  return hn::PromoteTo(CodeTag(), hn::BitCast(values, hn::LoadU(bytes, src)));
#else
  return hn::LoadU(CodeTag(), src);
#endif
}

// (code >> kShift) & kMask. REQUIRES: codes as LoadCodes gave them.
template <int kShift, int kMask>
HWY_INLINE Codes Bits(Codes codes) {
  const CodeTag d;
#if HWY_TARGET == HWY_AVX3
  if constexpr (kShift != 0) codes = hn::ShiftRight<kShift>(codes);
  return (0xFF >> kShift) == kMask ? codes : hn::And(codes, hn::Set(d, kMask));
#else
  // Bytes have no shift of their own on x86; the mask drops what a shift of
  // pairs brings in from the neighbour.
  if constexpr (kShift != 0) {
    const hn::Repartition<uint16_t, CodeTag> pairs;
    codes = hn::BitCast(d, hn::ShiftRight<kShift>(hn::BitCast(pairs, codes)));
  }
  return hn::And(codes, hn::Set(d, kMask));
#endif
}

// ((code >> kFrom) & kMask) << kTo. REQUIRES: codes as LoadCodes gave them; the
// result is below 128.
template <int kFrom, int kTo, int kMask>
HWY_INLINE Codes MovedBits(Codes codes) {
  constexpr int kShift = kFrom - kTo;
  const CodeTag d;
#if HWY_TARGET == HWY_AVX3
  const CodeTag shifted;
#else
  const hn::Repartition<uint16_t, CodeTag> shifted;
#endif
  auto moved = hn::BitCast(shifted, codes);
  if constexpr (kShift > 0) moved = hn::ShiftRight<kShift>(moved);
  if constexpr (kShift < 0) moved = hn::ShiftLeft<-kShift>(moved);
  return hn::And(hn::BitCast(d, moved), hn::Set(d, kMask << kTo));
}

HWY_INLINE Codes Join(Codes a, Codes b) { return hn::Or(a, b); }

#if HWY_TARGET != HWY_AVX3
// Sets bit kBit of each code whose bit is set in the 32 of `bits`, the lowest
// for the first code of group 0.
template <int kBit, size_t kGroup>
HWY_INLINE Codes WithBit(Codes codes, const uint8_t* bits) {
  const CodeTag d;
  const auto is_set = hn::LoadMaskBits(d, bits + 2 * kGroup);
  return hn::Or(codes, hn::IfThenElseZero(is_set, hn::Set(d, 1 << kBit)));
}

// table[code] for codes below 16; signed.
HWY_INLINE Codes LookUp(const int8_t* table, Codes nibbles) {
  const CodeTag d;
  const auto entries = hn::BitCast(d, hn::LoadU(hn::Full128<int8_t>(), table));
  return hn::TableLookupBytes(entries, nibbles);
}
#endif

// code - kOffset: from here on codes are signed.
template <int kOffset>
HWY_INLINE Codes Less(Codes codes) {
  return hn::Sub(codes, hn::Set(CodeTag(), kOffset));
}

#if HWY_TARGET != HWY_AVX3
// Halves of bytes until as many are left as a vector of floats has lanes.
template <class D>
HWY_INLINE void ConvertBytes(D d, hn::Vec<D> bytes, FloatVec* out) {
  if constexpr (hn::MaxLanes(d) > kVecLanes) {
    const hn::Half<D> half;
    ConvertBytes(half, hn::LowerHalf(half, bytes), out);
    ConvertBytes(half, hn::UpperHalf(half, bytes),
                 out + hn::MaxLanes(half) / kVecLanes);
  } else {
    const hn::RebindToSigned<FloatTag> di;
    *out = hn::ConvertTo(FloatTag(), hn::PromoteTo(di, bytes));
  }
}
#endif

// Signed codes become the numbers they stand for.
HWY_INLINE Lanes ToFloats(Codes codes) {
  Lanes lanes;
#if HWY_TARGET == HWY_AVX3
  lanes.vec[0] = hn::ConvertTo(FloatTag(), codes);
#else
  const hn::RebindToSigned<CodeTag> values;
  ConvertBytes(values, hn::BitCast(values, codes), lanes.vec);
#endif
  return lanes;
}

#endif  // HWY_TARGET == HWY_SCALAR

// Of four f16 numbers the one at kIndex, in every lane. All four are converted,
// of which three may be other bytes of the block: fewer and cheaper
// instructions than one in all lanes.
template <size_t kIndex>
HWY_INLINE FloatVec HalfOf(const uint8_t* eight_bytes) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4
  return hn::Set(FloatTag(), F16ToF32(LoadU16(eight_bytes + 2 * kIndex)));
#else
  const hn::Full128<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> halves;
  const hn::Simd<uint64_t, 1, 0> word;
  const auto four = hn::PromoteTo(
      d, hn::BitCast(halves, hn::Set(word, LoadWord(eight_bytes))));
  return hn::Set(FloatTag(), hn::GetLane(hn::Broadcast<kIndex>(four)));
#endif
}

// The f16 number at the beginning of a block, or in its last two bytes.
HWY_INLINE FloatVec FirstHalf(const uint8_t* block) { return HalfOf<0>(block); }
HWY_INLINE FloatVec LastHalf(const uint8_t* block_end) {
  return HalfOf<3>(block_end - 8);
}

// scale * code.
HWY_INLINE Lanes Scaled(const Codes& codes, FloatVec scale) {
  Lanes lanes = ToFloats(codes);
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) {
    lanes.vec[v] = hn::Mul(scale, lanes.vec[v]);
  }
  return lanes;
}

// scale * code + addend. In all types that have an addend the product is exact
// (a scale of 11 bits, times 6 where there is a second one, times a code of 5),
// so fused or not this is what ggml's two roundings give.
HWY_INLINE Lanes ScaledPlus(const Codes& codes, FloatVec scale,
                            FloatVec addend) {
  Lanes lanes = ToFloats(codes);
  LOWMEM_UNROLL
  for (size_t v = 0; v < kNumVecs; ++v) {
    lanes.vec[v] = hn::MulAdd(scale, lanes.vec[v], addend);
  }
  return lanes;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_CODES_INL_H_
