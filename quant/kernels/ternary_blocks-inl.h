// SPDX-License-Identifier: Apache-2.0
// TQ1_0 and TQ2_0: values -1, 0, 1 under one scale for 256.

#if defined(LOWMEM_QUANT_KERNELS_TERNARY_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_TERNARY_BLOCKS_INL_H_
#undef LOWMEM_QUANT_KERNELS_TERNARY_BLOCKS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_TERNARY_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/kernels/codes-inl.h"
#include "quant/scalar_convert.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// One base-3 digit of each of `kNumBytes` bytes. A byte holds digits as a
// fraction of 256, so that a multiplication by 3^n modulo 256 brings digit n to
// the top.
template <size_t kNumBytes>
HWY_INLINE void WriteDigits(float scale, const uint8_t* __restrict packed,
                            uint8_t power, float* __restrict out) {
  for (size_t j = 0; j < kNumBytes; ++j) {
    const uint8_t fraction = static_cast<uint8_t>(packed[j] * power);
    const int32_t digit = (static_cast<int32_t>(fraction) * 3) >> 8;
    out[j] = scale * static_cast<float>(digit - 1);
  }
}

constexpr uint8_t kPowersOf3[5] = {1, 3, 9, 27, 81};

inline void DecodeTQ1_0(const uint8_t* __restrict src, size_t num_elements,
                        float* __restrict dst) {
  // 32 bytes and 16 bytes of five digits, 4 bytes of four, f16 scale. Digit n
  // of all bytes of a part comes before digit n + 1.
  constexpr size_t kBytes = 54;
  for (size_t i = 0; i < num_elements; i += kSuperBlock, src += kBytes) {
    const float scale = F16ToF32(LoadU16(src + 52));
    float* out = dst + i;
    for (size_t n = 0; n < 5; ++n) {
      WriteDigits<32>(scale, src, kPowersOf3[n], out + 32 * n);
      WriteDigits<16>(scale, src + 32, kPowersOf3[n], out + 160 + 16 * n);
    }
    for (size_t n = 0; n < 4; ++n) {
      WriteDigits<4>(scale, src + 48, kPowersOf3[n], out + 240 + 4 * n);
    }
  }
}

struct TQ2_0Block {
  // 64 bytes of four values (a byte holds j, j + 32, j + 64, j + 96 of its
  // half), f16 scale.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 66;
  static constexpr size_t kNumParts = 1;
  explicit HWY_INLINE TQ2_0Block(const uint8_t* bytes) : block(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const FloatVec scale = LastHalf(block + kBytes);
    for (size_t half = 0; half < 2; ++half) {
      const Codes packed[2] = {LoadCodes(block + 32 * half),
                               LoadCodes(block + 32 * half + 16)};
      const auto emit = [&](size_t k, Codes codes) HWY_ATTR {
        sink(8 * half + k, Scaled(Less<1>(codes), scale));
      };
      emit(0, Bits<0, 3>(packed[0]));
      emit(1, Bits<0, 3>(packed[1]));
      emit(2, Bits<2, 3>(packed[0]));
      emit(3, Bits<2, 3>(packed[1]));
      emit(4, Bits<4, 3>(packed[0]));
      emit(5, Bits<4, 3>(packed[1]));
      emit(6, Bits<6, 3>(packed[0]));
      emit(7, Bits<6, 3>(packed[1]));
    }
  }

  const uint8_t* block;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // per target
