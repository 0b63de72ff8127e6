// SPDX-License-Identifier: Apache-2.0
// IQ4_NL and IQ4_XS: four-bit codes of sixteen levels that are not evenly
// apart. What a block type is: small_blocks-inl.h. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_IQ4_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_IQ4_BLOCKS_INL_H_
#undef LOWMEM_QUANT_KERNELS_IQ4_BLOCKS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_IQ4_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/iq_codebooks.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/group_scales-inl.h"
#include "quant/kernels/nibble_weights-inl.h"
#include "quant/scalar_convert.h"
#include "quant/word_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

struct IQ4_NLBlock {  // f16 scale, 16 bytes of values
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 18;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE IQ4_NLBlock(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights = NibblesOf(kIq4Values, FirstHalf(block));
    const Codes packed = LoadCodes(block + 2);
    sink(0, weights.Low(packed));
    sink(1, weights.High(packed));
  }

  const uint8_t* block;
};

struct IQ4_XSBlock {
  // f16 scale, a word of the upper two bits of 8 scales, 4 bytes of their low
  // four, 128 bytes of values.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 136;
  static constexpr size_t kNumParts = 4;
  explicit HWY_INLINE IQ4_XSBlock(const uint8_t* bytes)
      : block(bytes), scales(UnpackScales(bytes), FirstHalf(bytes)) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    for (size_t pair = 2 * kPart; pair < 2 * kPart + 2; ++pair) {
      const auto weights = NibblesOf(kIq4Values, scales[pair]);
      const Codes packed = LoadCodes(block + 8 + 16 * pair);
      sink(2 * pair, weights.Low(packed));
      sink(2 * pair + 1, weights.High(packed));
    }
  }

  const uint8_t* block;
  const GroupScales scales;

 private:
  // Fields of four and of two bits go to bytes of their own, less 32.
  static HWY_INLINE uint64_t UnpackScales(const uint8_t* bytes) {
    uint64_t low = LoadU32(bytes + 4);
    low = (low | (low << 16)) & 0x0000FFFF0000FFFF;
    low = (low | (low << 8)) & 0x00FF00FF00FF00FF;
    low = (low | (low << 4)) & EveryByte(15);
    uint64_t high = LoadU16(bytes + 2);
    high = (high | (high << 24)) & 0x000000FF000000FF;
    high = (high | (high << 12)) & 0x000F000F000F000F;
    high = (high | (high << 6)) & EveryByte(3);
    return Centre<32>(low | (high << 4));
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_IQ4_BLOCKS_INL_H_
