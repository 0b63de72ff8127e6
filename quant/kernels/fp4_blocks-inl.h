// SPDX-License-Identifier: Apache-2.0
// MXFP4 and NVFP4: four-bit floats under 8-bit float scales. What a block type
// is: small_blocks-inl.h. Compiled once per target.

#if defined(LOWMEM_QUANT_KERNELS_FP4_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_FP4_BLOCKS_INL_H_
#undef LOWMEM_QUANT_KERNELS_FP4_BLOCKS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_FP4_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/fp4_scales.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/nibble_weights-inl.h"
#include "quant/word_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

struct MXFP4Block {  // E8M0 scale, 16 bytes of values
  static constexpr size_t kElements = kSmallBlock;
  static constexpr size_t kBytes = 17;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE MXFP4Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const auto weights =
        NibblesOf(kDoubledE2M1, hn::Set(FloatTag(), HalvedE8M0(block[0])));
    const Codes packed = LoadCodes(block + 1);
    sink(0, weights.Low(packed));
    sink(1, weights.High(packed));
  }

  const uint8_t* block;
};

struct NVFP4Block {
  // Four E4M3 scales, four times 8 bytes of values: j and j + 8 share a byte.
  static constexpr size_t kElements = 64;
  static constexpr size_t kBytes = 36;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE NVFP4Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    for (size_t group = 0; group < 4; ++group) {
      const uint64_t packed = LoadWord(block + 4 + 8 * group);
      uint8_t codes[kNumLanes];
      StoreWord(packed & EveryByte(15), codes);
      StoreWord((packed >> 4) & EveryByte(15), codes + 8);
      const auto weights = NibblesOf(
          kDoubledE2M1, hn::Set(FloatTag(), HalvedE4M3(block[group])));
      sink(group, weights.Low(LoadCodes(codes)));
    }
  }

  const uint8_t* block;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_FP4_BLOCKS_INL_H_
