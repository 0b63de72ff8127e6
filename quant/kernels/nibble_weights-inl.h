// SPDX-License-Identifier: Apache-2.0
// The weights that four-bit codes stand for under one scale. Where one vector
// holds 16 numbers they are a table, made once for all codes of the scale: one
// instruction a group instead of three. Compiled once per target.
// Low takes the low halves of bytes as LoadCodes gave them, High the upper
// ones.

#if defined(LOWMEM_QUANT_KERNELS_NIBBLE_WEIGHTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_NIBBLE_WEIGHTS_INL_H_
#undef LOWMEM_QUANT_KERNELS_NIBBLE_WEIGHTS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_NIBBLE_WEIGHTS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

class TabledNibbles {
 public:
  explicit HWY_INLINE TabledNibbles(FloatVec table) : table_(table) {}

  // The lookup heeds the low four bits alone, so nothing is masked; indices are
  // made by hand because Highway's way to make them would check the others.
  HWY_INLINE Lanes Low(Codes packed) const {
    return {{hn::TableLookupLanes(table_, hn::Indices512<float>{packed.raw})}};
  }
  HWY_INLINE Lanes High(Codes packed) const {
    return Low(hn::ShiftRight<4>(packed));
  }

 private:
  FloatVec table_;
};

// The weights scale * code + addend; the product must be exact, as in
// ScaledPlus.
HWY_INLINE TabledNibbles LinearNibbles(FloatVec scale, FloatVec addend) {
  return TabledNibbles(hn::MulAdd(scale, hn::Iota(FloatTag(), 0.0f), addend));
}

// The weights scale * values[code].
HWY_INLINE TabledNibbles NibblesOf(const int8_t* values, FloatVec scale) {
  const auto entries =
      hn::PromoteTo(CodeTag(), hn::LoadU(hn::Full128<int8_t>(), values));
  return TabledNibbles(hn::Mul(scale, hn::ConvertTo(FloatTag(), entries)));
}

// The weights of five bits, of which the fifth lies in a word of 32: two
// tables.
class TabledFiveBits {
 public:
  HWY_INLINE TabledFiveBits(FloatVec without_fifth, FloatVec with_fifth)
      : without_fifth_(without_fifth), with_fifth_(with_fifth) {}

  HWY_INLINE Lanes Low(Codes packed, const uint8_t* fifth) const {
    return LookUpBoth<0>(packed, fifth);
  }
  HWY_INLINE Lanes High(Codes packed, const uint8_t* fifth) const {
    return LookUpBoth<16>(hn::ShiftRight<4>(packed), fifth);
  }

 private:
  // Bit kFirst + i of the word turns to bit 4 of lane i and meets the low four
  // bits there; the lookup heeds no others. Neither the rotation nor the lookup
  // in two tables is in Highway 1.0.3. Tests and masks for the fifth bit would
  // wait for the units of the lookups (Q5_0 in cache: 2.32 cycles a group; so
  // 2.05).
  template <int kFirst>
  HWY_INLINE Lanes LookUpBoth(Codes codes, const uint8_t* fifth) const {
    const CodeTag d;
    const Codes word = hn::Set(d, static_cast<int32_t>(LoadU32(fifth)));
    const Codes turned{
        _mm512_rorv_epi32(word.raw, hn::Iota(d, kFirst - 4).raw)};
    const Codes indices = hn::IfVecThenElse(hn::Set(d, 15), codes, turned);
    return {{FloatVec{_mm512_permutex2var_ps(without_fifth_.raw, indices.raw,
                                             with_fifth_.raw)}}};
  }

  FloatVec without_fifth_;
  FloatVec with_fifth_;
};

// The weights scale * (code + kOffset).
template <int kOffset>
HWY_INLINE TabledFiveBits FiveBits(FloatVec scale) {
  const FloatTag d;
  return TabledFiveBits(hn::Mul(scale, hn::Iota(d, float{kOffset})),
                        hn::Mul(scale, hn::Iota(d, float{kOffset + 16})));
}

// The weights scale * code + addend, as LinearNibbles.
HWY_INLINE TabledFiveBits LinearFiveBits(FloatVec scale, FloatVec addend) {
  const FloatTag d;
  return TabledFiveBits(hn::MulAdd(scale, hn::Iota(d, 0.0f), addend),
                        hn::MulAdd(scale, hn::Iota(d, 16.0f), addend));
}

#else

struct SpreadNibbles {
  HWY_INLINE Lanes Low(const Codes& packed) const {
    return ScaledPlus(Bits<0, 15>(packed), scale, addend);
  }
  HWY_INLINE Lanes High(const Codes& packed) const {
    return ScaledPlus(Bits<4, 15>(packed), scale, addend);
  }
  FloatVec scale;
  FloatVec addend;
};

HWY_INLINE SpreadNibbles LinearNibbles(FloatVec scale, FloatVec addend) {
  return {scale, addend};
}

struct LookedUpNibbles {
  HWY_INLINE Lanes Low(const Codes& packed) const {
    return Scaled(LookUp(values, Bits<0, 15>(packed)), scale);
  }
  HWY_INLINE Lanes High(const Codes& packed) const {
    return Scaled(LookUp(values, Bits<4, 15>(packed)), scale);
  }
  const int8_t* values;
  FloatVec scale;
};

HWY_INLINE LookedUpNibbles NibblesOf(const int8_t* values, FloatVec scale) {
  return {values, scale};
}

template <int kOffset>
struct FiveBits {
  explicit HWY_INLINE FiveBits(FloatVec factor) : scale(factor) {}
  HWY_INLINE Lanes Low(const Codes& packed, const uint8_t* fifth) const {
    return Scaled(Less<-kOffset>(WithBit<4, 0>(Bits<0, 15>(packed), fifth)),
                  scale);
  }
  HWY_INLINE Lanes High(const Codes& packed, const uint8_t* fifth) const {
    return Scaled(Less<-kOffset>(WithBit<4, 1>(Bits<4, 15>(packed), fifth)),
                  scale);
  }
  FloatVec scale;
};

struct LinearFiveBits {
  HWY_INLINE LinearFiveBits(FloatVec factor, FloatVec summand)
      : scale(factor), addend(summand) {}
  HWY_INLINE Lanes Low(const Codes& packed, const uint8_t* fifth) const {
    return ScaledPlus(WithBit<4, 0>(Bits<0, 15>(packed), fifth), scale, addend);
  }
  HWY_INLINE Lanes High(const Codes& packed, const uint8_t* fifth) const {
    return ScaledPlus(WithBit<4, 1>(Bits<4, 15>(packed), fifth), scale, addend);
  }
  FloatVec scale;
  FloatVec addend;
};

#endif

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_NIBBLE_WEIGHTS_INL_H_
