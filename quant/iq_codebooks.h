// SPDX-License-Identifier: Apache-2.0
// The IQ codebooks as decoders use them: one byte a value, expanded at compile time
// (33 KiB of constants) from the packed words of iq_tables.h.

#ifndef LOWMEM_QUANT_IQ_CODEBOOKS_H_
#define LOWMEM_QUANT_IQ_CODEBOOKS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/iq_tables.h"

namespace lowmem {

// `kNumValues` magnitudes (or signed values) of one codebook entry.
template <size_t kNumValues>
struct IqEntry {
  int8_t values[kNumValues];
};

template <size_t kNumValues, size_t kNumEntries, size_t kNumLevels>
constexpr std::array<IqEntry<kNumValues>, kNumEntries> ExpandCodebook(
    const uint16_t (&packed)[kNumEntries], const int8_t (&levels)[kNumLevels]) {
  constexpr int kBits = 16 / kNumValues;
  constexpr int kMask = (1 << kBits) - 1;
  std::array<IqEntry<kNumValues>, kNumEntries> entries{};
  for (size_t i = 0; i < kNumEntries; ++i) {
    for (size_t j = 0; j < kNumValues; ++j) {
      entries[i].values[j] = levels[(packed[i] >> (kBits * j)) & kMask];
    }
  }
  return entries;
}

inline constexpr int8_t kIq2Levels[] = {8, 25, 43};
inline constexpr int8_t kIq3XxsLevels[] = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr int8_t kIq3SLevels[] = {1, 3, 5, 7, 9, 11, 13, 15};
inline constexpr int8_t kIq1Levels[] = {-1, 0, 1};

inline constexpr auto kIq2XxsGrid = ExpandCodebook<8>(kIq2XxsPacked, kIq2Levels);
inline constexpr auto kIq2XsGrid = ExpandCodebook<8>(kIq2XsPacked, kIq2Levels);
inline constexpr auto kIq2SGrid = ExpandCodebook<8>(kIq2SPacked, kIq2Levels);
inline constexpr auto kIq3XxsGrid =
    ExpandCodebook<4>(kIq3XxsPacked, kIq3XxsLevels);
inline constexpr auto kIq3SGrid = ExpandCodebook<4>(kIq3SPacked, kIq3SLevels);
inline constexpr auto kIq1Grid = ExpandCodebook<8>(kIq1Packed, kIq1Levels);

// Factors +1 and -1 for the eight bits of a sign byte, the lowest first.
constexpr std::array<IqEntry<8>, 256> ExpandSigns() {
  std::array<IqEntry<8>, 256> entries{};
  for (size_t i = 0; i < entries.size(); ++i) {
    for (size_t j = 0; j < 8; ++j) {
      entries[i].values[j] = ((i >> j) & 1) != 0 ? -1 : 1;
    }
  }
  return entries;
}
inline constexpr auto kIqSigns = ExpandSigns();

// Sign bytes are stored in seven bits where an even number of signs is negative:
// the eighth is the parity of the others (ggml's ksigns_iq2xs).
constexpr std::array<IqEntry<8>, 128> ExpandEvenSigns() {
  std::array<IqEntry<8>, 128> entries{};
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t parity = 0;
    for (size_t j = 0; j < 7; ++j) parity ^= (i >> j) & 1;
    entries[i] = kIqSigns[i | (parity << 7)];
  }
  return entries;
}
inline constexpr auto kIqEvenSigns = ExpandEvenSigns();

// The 16 values of IQ4_NL and IQ4_XS (ggml's kvalues_iq4nl).
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35,
                                          -22,  -10,  1,   13,  25,  38,
                                          53,   69,   89,  113};

}  // namespace lowmem

#endif  // LOWMEM_QUANT_IQ_CODEBOOKS_H_
