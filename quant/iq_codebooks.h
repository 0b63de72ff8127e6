// SPDX-License-Identifier: Apache-2.0
// The IQ codebooks as decoders use them: one byte a value, expanded at compile
// time (33 KiB of constants) from the packed words of iq1_tables.h to
// iq3_tables.h.

#ifndef LOWMEM_QUANT_IQ_CODEBOOKS_H_
#define LOWMEM_QUANT_IQ_CODEBOOKS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/iq1_tables.h"
#include "quant/iq2_tables.h"
#include "quant/iq3_tables.h"

namespace lowmem {

// An entry is a word with one value a byte, the first lowest: eight in 64 bits
// or four in 32.
template <typename Word, size_t kNumEntries, size_t kNumLevels>
constexpr std::array<Word, kNumEntries> ExpandCodebook(
    const uint16_t (&packed)[kNumEntries],
    const uint8_t (&levels)[kNumLevels]) {
  constexpr size_t kBits = 16 / sizeof(Word);
  constexpr uint16_t kMask = (1u << kBits) - 1;
  std::array<Word, kNumEntries> entries{};
  for (size_t i = 0; i < kNumEntries; ++i) {
    for (size_t j = 0; j < sizeof(Word); ++j) {
      const uint8_t level = levels[(packed[i] >> (kBits * j)) & kMask];
      entries[i] |= static_cast<Word>(level) << (8 * j);
    }
  }
  return entries;
}

inline constexpr uint8_t kIq2Levels[] = {8, 25, 43};
inline constexpr uint8_t kIq3XxsLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr uint8_t kIq3SLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};
// -1, 0, 1 in eighths, eight more.
inline constexpr uint8_t kIq1Levels[] = {0, 8, 16};

inline constexpr auto kIq2XxsGrid =
    ExpandCodebook<uint64_t>(kIq2XxsPacked, kIq2Levels);
inline constexpr auto kIq2XsGrid =
    ExpandCodebook<uint64_t>(kIq2XsPacked, kIq2Levels);
inline constexpr auto kIq2SGrid =
    ExpandCodebook<uint64_t>(kIq2SPacked, kIq2Levels);
inline constexpr auto kIq3XxsGrid =
    ExpandCodebook<uint32_t>(kIq3XxsPacked, kIq3XxsLevels);
inline constexpr auto kIq3SGrid =
    ExpandCodebook<uint32_t>(kIq3SPacked, kIq3SLevels);
inline constexpr auto kIq1Grid =
    ExpandCodebook<uint64_t>(kIq1Packed, kIq1Levels);

// For the eight bits of a sign byte, the lowest first, bytes of all ones
// (negative) or zero.
constexpr std::array<uint64_t, 256> ExpandSigns() {
  std::array<uint64_t, 256> entries{};
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t j = 0; j < 8; ++j) {
      if (((i >> j) & 1) != 0) entries[i] |= uint64_t{255} << (8 * j);
    }
  }
  return entries;
}
inline constexpr auto kIqSigns = ExpandSigns();

// Sign bytes are stored in seven bits where an even number of signs is
// negative: the eighth is the parity of the others (ggml's ksigns_iq2xs).
constexpr std::array<uint64_t, 128> ExpandEvenSigns() {
  std::array<uint64_t, 128> entries{};
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t parity = 0;
    for (size_t j = 0; j < 7; ++j) parity ^= (i >> j) & 1;
    entries[i] = kIqSigns[i | (parity << 7)];
  }
  return entries;
}
inline constexpr auto kIqEvenSigns = ExpandEvenSigns();

// The 16 values of IQ4_NL and IQ4_XS (ggml's kvalues_iq4nl).
inline constexpr int8_t kIq4Values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace lowmem

#endif  // LOWMEM_QUANT_IQ_CODEBOOKS_H_
