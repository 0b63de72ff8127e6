// SPDX-License-Identifier: Apache-2.0
// Unsigned 64-bit arithmetic that reports overflow instead of wrapping. Every
// size that comes from a file or a user goes through here; bounds are compared
// by subtraction from what is left (`n > size - ofs`), never by addition.

#ifndef LOWMEM_STORAGE_BASE_CHECKED_MATH_H_
#define LOWMEM_STORAGE_BASE_CHECKED_MATH_H_

#include <cstdint>
#include <optional>

namespace lowmem {

inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// `value` rounded up to a multiple of `multiple`.
// REQUIRES: multiple > 0.
inline std::optional<uint64_t> CheckedRoundUp(uint64_t value,
                                              uint64_t multiple) {
  const uint64_t remainder = value % multiple;
  if (remainder == 0) return value;
  return CheckedAdd(value, multiple - remainder);
}

// Whether [offset, offset + length) lies within [0, size).
inline bool RangeFits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_CHECKED_MATH_H_
