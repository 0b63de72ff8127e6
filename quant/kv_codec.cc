// SPDX-License-Identifier: Apache-2.0
#include "quant/kv_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "quant/scalar_convert.h"

namespace lowmem {
namespace {

constexpr float kLargestCode = 127.0f;

void StoreU16(uint16_t value, uint8_t* dst) {
  std::memcpy(dst, &value, sizeof(value));
}

size_t NumQ8Blocks(size_t num_elements) {
  return (num_elements + kKvQ8Block - 1) / kKvQ8Block;
}

// As bits of float32, which order magnitudes with infinity and NaN on top.
uint32_t LargestMagnitude(const float* src, size_t num_elements) {
  uint32_t largest = 0;
  for (size_t i = 0; i < num_elements; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(src[i]) & 0x7FFFFFFFu);
  }
  return largest;
}

uint16_t Q8Scale(uint32_t largest) {
  constexpr uint32_t kInfinity = 0x7F800000u;
  constexpr uint16_t kQuietNaN = 0x7FC0u;
  return largest >= kInfinity
             ? kQuietNaN
             : F32ToBF16(std::bit_cast<float>(largest) / kLargestCode);
}

// Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the
// low bits.
uint8_t Q8Code(float value, float scale) {
  const float code = std::clamp(value / scale, -kLargestCode, kLargestCode);
  return static_cast<uint8_t>(std::bit_cast<uint32_t>(code + 0x1.8p23f));
}

void EncodeQ8(const float* src, size_t num_elements, uint8_t* dst) {
  uint8_t* scales = dst + num_elements;
  for (size_t i = 0; i < num_elements; i += kKvQ8Block) {
    const size_t count = std::min(kKvQ8Block, num_elements - i);
    const uint16_t stored_scale = Q8Scale(LargestMagnitude(src + i, count));
    StoreU16(stored_scale, scales + 2 * (i / kKvQ8Block));
    const float scale = BF16ToF32(stored_scale);
    if (scale > 0) {
      for (size_t k = i; k < i + count; ++k) dst[k] = Q8Code(src[k], scale);
    } else {  // zero or NaN
      std::memset(dst + i, 0, count);
    }
  }
}

void DecodeQ8(const uint8_t* src, size_t num_elements, float* dst) {
  for (size_t i = 0; i < num_elements; ++i) {
    const float scale =
        BF16ToF32(LoadU16(src + num_elements + 2 * (i / kKvQ8Block)));
    // Exact: 8 bits times 7.
    dst[i] = scale * static_cast<float>(static_cast<int8_t>(src[i]));
  }
}

}  // namespace

size_t KvRowBytes(KvFormat format, size_t num_elements) {
  switch (format) {
    case KvFormat::kF32:
      return num_elements * sizeof(float);
    case KvFormat::kBF16:
      return num_elements * sizeof(uint16_t);
    case KvFormat::kQ8:
      break;
  }
  return num_elements + NumQ8Blocks(num_elements) * sizeof(uint16_t);
}

void EncodeKvRow(KvFormat format, const float* src, size_t num_elements,
                 uint8_t* dst) {
  switch (format) {
    case KvFormat::kF32:
      std::memcpy(dst, src, num_elements * sizeof(float));
      return;
    case KvFormat::kBF16:
      for (size_t i = 0; i < num_elements; ++i) {
        StoreU16(F32ToBF16(src[i]), dst + 2 * i);
      }
      return;
    case KvFormat::kQ8:
      EncodeQ8(src, num_elements, dst);
      return;
  }
}

void DecodeKvRow(KvFormat format, const uint8_t* src, size_t num_elements,
                 float* dst) {
  switch (format) {
    case KvFormat::kF32:
      std::memcpy(dst, src, num_elements * sizeof(float));
      return;
    case KvFormat::kBF16:
      for (size_t i = 0; i < num_elements; ++i) {
        dst[i] = BF16ToF32(LoadU16(src + 2 * i));
      }
      return;
    case KvFormat::kQ8:
      DecodeQ8(src, num_elements, dst);
      return;
  }
}

}  // namespace lowmem
