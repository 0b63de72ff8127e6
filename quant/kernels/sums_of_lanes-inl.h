// SPDX-License-Identifier: Apache-2.0
// The sums of several vectors, each in the order of SumOfVector, and all of
// them in one vector. Compiled once per target. Each step adds what is left of
// two vectors at once, so that a sum costs about one addition and two shuffles,
// where one alone costs four of each.

#if defined(LOWMEM_QUANT_KERNELS_SUMS_OF_LANES_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_SUMS_OF_LANES_INL_H_
#undef LOWMEM_QUANT_KERNELS_SUMS_OF_LANES_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_SUMS_OF_LANES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
// Lane l is a[l] + a[l + kDistance] where l has no bit kDistance, and
// b[l - kDistance] + b[l] where it has.
template <size_t kDistance>
HWY_INLINE FloatVec AddDistantLanes(FloatVec a, FloatVec b) {
  const FloatTag d;
  if constexpr (kDistance == 1) {
    return hn::Add(hn::OddEven(b, a), hn::Shuffle2301(hn::OddEven(a, b)));
  } else if constexpr (kDistance == 2) {
    const hn::Repartition<uint64_t, FloatTag> pairs;
    const auto pairs_of_a = hn::BitCast(pairs, a);
    const auto pairs_of_b = hn::BitCast(pairs, b);
    return hn::Add(
        hn::BitCast(d, hn::InterleaveLower(pairs, pairs_of_a, pairs_of_b)),
        hn::BitCast(d, hn::InterleaveUpper(pairs, pairs_of_a, pairs_of_b)));
  } else if constexpr (kDistance * 2 == kVecLanes) {
    return hn::Add(hn::ConcatLowerLower(d, b, a),
                   hn::ConcatUpperUpper(d, b, a));
  } else {
    static_assert(kDistance == 4, "blocks have four lanes");
    return hn::Add(hn::OddEvenBlocks(b, a),
                   hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
  }
}
#endif

// The sums of vectors[i], which are used up: as many as a vector has lanes, or
// half, a quarter, ... as many. Each fills kVecLanes / kNumVectors lanes, in
// order.
template <size_t kNumVectors, size_t kDistance = kVecLanes / 2>
HWY_INLINE FloatVec SumsOfVectors(FloatVec (&vectors)[kNumVectors]) {
  if constexpr (kDistance == 0) {
    return vectors[0];
  } else if constexpr (kNumVectors == 1) {
    FloatVec sum[1] = {AddDistantLanes<kDistance>(vectors[0], vectors[0])};
    return SumsOfVectors<1, kDistance / 2>(sum);
  } else {
    constexpr size_t kHalf = kNumVectors / 2;
    FloatVec sums[kHalf];
    LOWMEM_UNROLL
    for (size_t i = 0; i < kHalf; ++i) {
      sums[i] = AddDistantLanes<kDistance>(vectors[i], vectors[i + kHalf]);
    }
    return SumsOfVectors<kHalf, kDistance / 2>(sums);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_SUMS_OF_LANES_INL_H_
