// SPDX-License-Identifier: Apache-2.0
// Single 16-bit floats to float32 and back, and numbers read from bytes that
// have no alignment. Branch-free, so that a loop over them vectorises.
// Invariant: files are little-endian and so is the host.

#ifndef LOWMEM_QUANT_SCALAR_CONVERT_H_
#define LOWMEM_QUANT_SCALAR_CONVERT_H_

#include <bit>
#include <cstdint>
#include <cstring>

namespace lowmem {

static_assert(std::endian::native == std::endian::little,
              "weights are read as they lie in the file");

inline uint16_t LoadU16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

inline uint32_t LoadU32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// IEEE binary16. Denormals are exact; infinities, NaN payloads and the sign of
// zero are kept.
inline float F16ToF32(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7FFFu;
  // The exponent moves from bias 15 to 127; all ones stay all ones.
  const uint32_t rebias = magnitude >= 0x7C00u ? 224u << 23 : 112u << 23;
  const uint32_t normal = (magnitude << 13) + rebias;
  // Through an integer conversion rather than a float denormal, which costs a
  // microcode assist on x86.
  const uint32_t denormal = std::bit_cast<uint32_t>(
      static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  // A mask instead of a choice: the compiler would put the multiplication
  // behind a branch, and no loop over that vectorises.
  const uint32_t is_denormal = 0u - static_cast<uint32_t>(magnitude < 0x0400u);
  return std::bit_cast<float>(sign | (denormal & is_denormal) |
                              (normal & ~is_denormal));
}

inline float BF16ToF32(uint16_t brain) {
  return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16);
}

// Rounds to nearest, ties to even; NaN stays NaN (made quiet), overflow becomes
// infinity.
inline uint16_t F32ToBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x0040u;
  const bool is_nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  return static_cast<uint16_t>(is_nan ? quiet : rounded);
}

}  // namespace lowmem

#endif  // LOWMEM_QUANT_SCALAR_CONVERT_H_
