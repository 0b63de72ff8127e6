// SPDX-License-Identifier: Apache-2.0
// Eight bytes worked on at once in a 64-bit word.

#ifndef LOWMEM_QUANT_WORD_BYTES_H_
#define LOWMEM_QUANT_WORD_BYTES_H_

#include <cstdint>
#include <cstring>

namespace lowmem {

// A byte in each of the eight places.
constexpr uint64_t EveryByte(uint64_t byte) {
  return byte * 0x0101010101010101ull;
}

inline uint64_t LoadWord(const void* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

inline void StoreWord(uint64_t word, void* bytes) {
  std::memcpy(bytes, &word, sizeof(word));
}

// Subtracts kOffset from each byte. The sum stays within its byte, so that
// nothing carries into the next. REQUIRES: each byte is below 128 + kOffset.
template <uint64_t kOffset>
constexpr uint64_t Centre(uint64_t word) {
  static_assert(kOffset <= 128);
  return (word + EveryByte(128 - kOffset)) ^ EveryByte(128);
}

}  // namespace lowmem

#endif  // LOWMEM_QUANT_WORD_BYTES_H_
