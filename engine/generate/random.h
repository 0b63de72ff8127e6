// SPDX-License-Identifier: Apache-2.0
// Random numbers for drawing tokens. Counter-based: a number is a function of
// the seed and of an index, with no state between calls, so a text does not
// depend on how it was cut into calls. Integers and one exact conversion only:
// the same on every machine. Not for cryptography. Source of the mixing
// constants: SplitMix64 (Steele, Lea and Flood 2014; Stafford's variant 13).

#ifndef LOWMEM_ENGINE_GENERATE_RANDOM_H_
#define LOWMEM_ENGINE_GENERATE_RANDOM_H_

#include <cstdint>

namespace lowmem {

// A bijection of 64 bits in which every input bit flips about half of the
// output.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Number `index` of the SplitMix64 sequence that starts at the mixed seed.
// Mixing it first keeps seeds 0, 1, 2, ... from being neighbours in one
// sequence.
constexpr uint64_t RandomBits(uint64_t seed, uint64_t index) {
  constexpr uint64_t kGoldenGamma = 0x9e3779b97f4a7c15u;
  return MixBits(MixBits(seed + kGoldenGamma) + (index + 1) * kGoldenGamma);
}

// Uniform in [0, 1): the upper 53 bits, which a double holds exactly.
constexpr double RandomUnit(uint64_t seed, uint64_t index) {
  return static_cast<double>(RandomBits(seed, index) >> 11) * 0x1p-53;
}

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_RANDOM_H_
