// SPDX-License-Identifier: Apache-2.0
// Q2_K to Q6_K: 256 values in groups of 16 or 32, each group with a small
// integer scale (and minimum) under the block's half-precision ones. Low bits
// lie in planes: a byte of a plane holds values of several runs of 32, the
// first run lowest. What a block type is: small_blocks-inl.h. Compiled once per
// target.

#if defined(LOWMEM_QUANT_KERNELS_K_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LOWMEM_QUANT_KERNELS_K_BLOCKS_INL_H_
#undef LOWMEM_QUANT_KERNELS_K_BLOCKS_INL_H_
#else
#define LOWMEM_QUANT_KERNELS_K_BLOCKS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "quant/block_sizes.h"
#include "quant/kernels/codes-inl.h"
#include "quant/kernels/group_scales-inl.h"
#include "quant/kernels/nibble_weights-inl.h"
#include "quant/scalar_convert.h"
#include "quant/word_bytes.h"

HWY_BEFORE_NAMESPACE();
namespace lowmem {
namespace HWY_NAMESPACE {

// The 8 scales and 8 minimums of Q4_K and Q5_K, six bits each in 12 bytes: the
// first four of each kind in the low six bits of bytes 0..3 and 4..7; of the
// last four the low four bits in bytes 8..11 (scale low, minimum high) and the
// upper two bits on top of bytes 0..3 and 4..7.
struct ScalesAndMinimums {
  // `block` begins with the f16 scale and the f16 minimum. Minimums are
  // negated.
  explicit HWY_INLINE ScalesAndMinimums(const uint8_t* block)
      : scales(Unpack(LoadU32(block + 4), LoadU32(block + 12)),
               FirstHalf(block)),
        minimums(Unpack(LoadU32(block + 8), LoadU32(block + 12) >> 4),
                 hn::Neg(HalfOf<1>(block))) {}

  GroupScales scales;
  GroupScales minimums;

 private:
  static HWY_INLINE uint64_t Unpack(uint64_t first, uint64_t last) {
    last = (last & 0x0F0F0F0F) | ((first >> 2) & 0x30303030);
    return (first & 0x3F3F3F3F) | (last << 32);
  }
};

struct Q2_KBlock {
  // 16 bytes of 4-bit scales and minimums, 64 of values, f16 scale, f16
  // minimum.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 84;
  static constexpr size_t kNumParts = 2;
  explicit HWY_INLINE Q2_KBlock(const uint8_t* bytes)
      : block(bytes),
        scales(Bits<0, 15>(LoadCodes(bytes)), HalfOf<2>(bytes + 76)),
        minimums(Bits<4, 15>(LoadCodes(bytes)),
                 hn::Neg(LastHalf(bytes + kBytes))) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const Codes packed[2] = {LoadCodes(block + 16 + 32 * kPart),
                             LoadCodes(block + 32 + 32 * kPart)};
    DecodeRun<kPart, 0>(packed, sink);
    DecodeRun<kPart, 1>(packed, sink);
    DecodeRun<kPart, 2>(packed, sink);
    DecodeRun<kPart, 3>(packed, sink);
  }

  const uint8_t* block;
  const GroupScales scales;
  const GroupScales minimums;

 private:
  template <size_t kPart, int kRun, class Sink>
  HWY_INLINE void DecodeRun(const Codes (&packed)[2], Sink sink) const {
    LOWMEM_UNROLL
    for (size_t k = 0; k < 2; ++k) {
      const size_t group = 8 * kPart + 2 * kRun + k;
      sink(group, ScaledPlus(Bits<2 * kRun, 3>(packed[k]), scales[group],
                             minimums[group]));
    }
  }
};

struct Q3_KBlock {
  // 32 bytes of third bits, 64 of low bits, 12 of scales, f16 scale. A third
  // bit that is clear means minus four. Scales have six bits, less 32: low four
  // bits in bytes 0..7 (scales 0..7 low half, 8..15 high half), upper two bits
  // in bytes 8..11, those of scale i at 2 * (i / 4) of byte i % 4.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 110;
  static constexpr size_t kNumParts = 2;
  explicit HWY_INLINE Q3_KBlock(const uint8_t* bytes)
      : block(bytes),
        scales{{UnpackScales(bytes + 96, 0), LastHalf(bytes + kBytes)},
               {UnpackScales(bytes + 96, 4), LastHalf(bytes + kBytes)}} {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const Codes third[2] = {LoadCodes(block), LoadCodes(block + 16)};
    const Codes packed[2] = {LoadCodes(block + 32 + 32 * kPart),
                             LoadCodes(block + 48 + 32 * kPart)};
    DecodeRun<kPart, 0>(packed, third, sink);
    DecodeRun<kPart, 1>(packed, third, sink);
    DecodeRun<kPart, 2>(packed, third, sink);
    DecodeRun<kPart, 3>(packed, third, sink);
  }

  const uint8_t* block;
  const GroupScales scales[2];

 private:
  static HWY_INLINE uint64_t UnpackScales(const uint8_t* packed, int shift) {
    const uint64_t low = LoadWord(packed) >> shift;
    const uint64_t high = LoadU32(packed + 8) >> shift;
    const uint64_t upper_bits =
        (high & 0x03030303) | ((high << 30) & 0x0303030300000000);
    return Centre<32>((low & EveryByte(15)) | (upper_bits << 4));
  }

  template <int kPart, int kRun, class Sink>
  HWY_INLINE void DecodeRun(const Codes (&packed)[2], const Codes (&third)[2],
                            Sink sink) const {
    LOWMEM_UNROLL
    for (size_t k = 0; k < 2; ++k) {
      const Codes high = MovedBits<4 * kPart + kRun, 2, 1>(third[k]);
      sink(8 * kPart + 2 * kRun + k,
           Scaled(Less<4>(Join(Bits<2 * kRun, 3>(packed[k]), high)),
                  scales[kPart][2 * kRun + k]));
    }
  }
};

struct Q4_KBlock {
  // f16 scale, f16 minimum, 12 bytes of group scales, 128 of values.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 144;
  static constexpr size_t kNumParts = 4;
  explicit HWY_INLINE Q4_KBlock(const uint8_t* bytes)
      : block(bytes), of(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const Codes first = LoadCodes(block + 16 + 32 * kPart);
    const Codes second = LoadCodes(block + 32 + 32 * kPart);
    const auto low =
        LinearNibbles(of.scales[2 * kPart], of.minimums[2 * kPart]);
    sink(4 * kPart, low.Low(first));
    sink(4 * kPart + 1, low.Low(second));
    const auto high =
        LinearNibbles(of.scales[2 * kPart + 1], of.minimums[2 * kPart + 1]);
    sink(4 * kPart + 2, high.High(first));
    sink(4 * kPart + 3, high.High(second));
  }

  const uint8_t* block;
  const ScalesAndMinimums of;
};

struct Q5_KBlock {
  // f16 scale, f16 minimum, 12 bytes of group scales, 32 of fifth bits, 128 of
  // low bits.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 176;
  static constexpr size_t kNumParts = 4;
  explicit HWY_INLINE Q5_KBlock(const uint8_t* bytes)
      : block(bytes), of(bytes) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const Codes fifth[2] = {LoadCodes(block + 16), LoadCodes(block + 32)};
    const Codes packed[2] = {LoadCodes(block + 48 + 32 * kPart),
                             LoadCodes(block + 64 + 32 * kPart)};
    DecodeRun<2 * kPart>(packed, fifth, sink);
    DecodeRun<2 * kPart + 1>(packed, fifth, sink);
  }

  const uint8_t* block;
  const ScalesAndMinimums of;

 private:
  template <int kRun, class Sink>
  HWY_INLINE void DecodeRun(const Codes (&packed)[2], const Codes (&fifth)[2],
                            Sink sink) const {
    LOWMEM_UNROLL
    for (size_t k = 0; k < 2; ++k) {
      const Codes high = MovedBits<kRun, 4, 1>(fifth[k]);
      sink(2 * kRun + k,
           ScaledPlus(Join(Bits<4 * (kRun % 2), 15>(packed[k]), high),
                      of.scales[kRun], of.minimums[kRun]));
    }
  }
};

struct Q6_KBlock {
  // 128 bytes of low four bits, 64 of upper two, 16 signed scales, f16 scale.
  // Of the four runs of a half block, 0 and 2 share low bytes, as 1 and 3 do;
  // all four share the upper ones.
  static constexpr size_t kElements = kSuperBlock;
  static constexpr size_t kBytes = 210;
  static constexpr size_t kNumParts = 2;
  explicit HWY_INLINE Q6_KBlock(const uint8_t* bytes)
      : block(bytes),
        scales(LoadSignedCodes(bytes + 192), LastHalf(bytes + kBytes)) {}
  template <size_t kPart, class Sink>
  HWY_INLINE void Decode(Sink sink) const {
    const uint8_t* packed = block + 64 * kPart;
    const Codes low[4] = {LoadCodes(packed), LoadCodes(packed + 16),
                          LoadCodes(packed + 32), LoadCodes(packed + 48)};
    const Codes upper[2] = {LoadCodes(block + 128 + 32 * kPart),
                            LoadCodes(block + 144 + 32 * kPart)};
    DecodeRun<kPart, 0>(low, upper, sink);
    DecodeRun<kPart, 1>(low, upper, sink);
    DecodeRun<kPart, 2>(low, upper, sink);
    DecodeRun<kPart, 3>(low, upper, sink);
  }

  const uint8_t* block;
  const GroupScales scales;

 private:
  template <size_t kPart, int kRun, class Sink>
  HWY_INLINE void DecodeRun(const Codes (&low)[4], const Codes (&upper)[2],
                            Sink sink) const {
    LOWMEM_UNROLL
    for (size_t k = 0; k < 2; ++k) {
      const size_t group = 8 * kPart + 2 * kRun + k;
      const Codes low_bits = Bits<4 * (kRun / 2), 15>(low[2 * (kRun % 2) + k]);
      const Codes high_bits = MovedBits<2 * kRun, 4, 3>(upper[k]);
      sink(group, Scaled(Less<32>(Join(low_bits, high_bits)), scales[group]));
    }
  }
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace lowmem
HWY_AFTER_NAMESPACE();

#endif  // LOWMEM_QUANT_KERNELS_K_BLOCKS_INL_H_
