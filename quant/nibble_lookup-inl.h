// SPDX-License-Identifier: Apache-2.0
// Looks up four-bit codes in a table of 16 bytes: one shuffle on every target
// but the scalar one, where the compiler makes 16 loads of it.

#if defined(LOWMEM_QUANT_NIBBLE_LOOKUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_NIBBLE_LOOKUP_INL_H_
#undef LOWMEM_QUANT_NIBBLE_LOOKUP_INL_H_
#else
#define LOWMEM_QUANT_NIBBLE_LOOKUP_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// low[j] = table[packed[j] & 15], high[j] = table[packed[j] >> 4], j < 16.
HWY_INLINE void LookUpNibbles(const int8_t* HWY_RESTRICT table,
                              const uint8_t* HWY_RESTRICT packed,
                              int8_t* HWY_RESTRICT low,
                              int8_t* HWY_RESTRICT high) {
#if HWY_TARGET == HWY_SCALAR
  for (size_t j = 0; j < 16; ++j) {
    low[j] = table[packed[j] & 15];
    high[j] = table[packed[j] >> 4];
  }
#else
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::Full128<uint8_t> codes;
  const hn::Full128<int8_t> values;
  const auto entries = hn::LoadU(values, table);
  const auto both = hn::LoadU(codes, packed);
  // Bytes have no shift of their own on x86; the mask drops what a shift of
  // pairs brings in from the neighbour.
  const auto mask = hn::Set(codes, 15);
  const hn::Full128<uint16_t> pairs;
  const auto upper = hn::And(
      hn::BitCast(codes, hn::ShiftRight<4>(hn::BitCast(pairs, both))), mask);
  hn::StoreU(
      hn::TableLookupBytes(entries, hn::BitCast(values, hn::And(both, mask))),
      values, low);
  hn::StoreU(hn::TableLookupBytes(entries, hn::BitCast(values, upper)), values,
             high);
#endif
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
