// SPDX-License-Identifier: Apache-2.0
// Blocks of 32 values under one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0. In all but
// Q8_0 values j and j + 16 share a byte, the low four bits for j. Compiled once
// per target.
//
// A block type, here and in the files beside, has kElements and kBytes of a
// block and is made from a pointer to one. It decodes in kNumParts parts, so
// that several rows can be taken in turns: Decode<kPart>(sink) calls
// sink(group, lanes) for each group of 16 columns of the part, in their order,
// bit-equal to ggml's dequantize_row_*.

#if defined(LOWMEM_QUANT_KERNELS_SMALL_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_SMALL_BLOCKS_INL_H_
#undef LOWMEM_QUANT_KERNELS_SMALL_BLOCKS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_SMALL_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/nibble_weights-inl.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

inline constexpr int8_t kQ4_0Values[16] = {-8, -7, -6, -5, -4, -3, -2, -1,
                                           0,  1,  2,  3,  4,  5,  6,  7};

struct Q4_0Block {  // f16 scale, 16 bytes of values
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 18;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE Q4_0Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights = NibblesOf(kQ4_0Values, FirstHalf(block));
    const Codes packed = LoadCodes(block + 2);
    sink(0, weights.Low(packed));
    sink(1, weights.High(packed));
  }

  const uint8_t* block;
};

struct Q4_1Block {  // f16 scale, f16 minimum, 16 bytes of values
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 20;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE Q4_1Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights = LinearNibbles(FirstHalf(block), HalfOf<1>(block));
    const Codes packed = LoadCodes(block + 4);
    sink(0, weights.Low(packed));
    sink(1, weights.High(packed));
  }

  const uint8_t* block;
};

struct Q5_0Block {  // f16 scale, 32 fifth bits, 16 bytes of low bits
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 22;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE Q5_0Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights = FiveBits<-16>(FirstHalf(block));
    const Codes packed = LoadCodes(block + 6);
    sink(0, weights.Low(packed, block + 2));
    sink(1, weights.High(packed, block + 2));
  }

  const uint8_t* block;
};

struct Q5_1Block {  // as Q5_0 with an f16 minimum after the scale
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 24;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE Q5_1Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights = LinearFiveBits(FirstHalf(block), HalfOf<1>(block));
    const Codes packed = LoadCodes(block + 8);
    sink(0, weights.Low(packed, block + 4));
    sink(1, weights.High(packed, block + 4));
  }

  const uint8_t* block;
};

struct Q8_0Block {  // f16 scale, 32 signed bytes
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 34;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE Q8_0Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const FloatVec scale = FirstHalf(block);
    sink(0, Scaled(LoadSignedCodes(block + 2), scale));
    sink(1, Scaled(LoadSignedCodes(block + 18), scale));
  }

  const uint8_t* block;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_SMALL_BLOCKS_INL_H_
