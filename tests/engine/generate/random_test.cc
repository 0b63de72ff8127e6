// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/random.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

// The published sequence of SplitMix64 for the start value 1234567: without the
// mixed start, our numbers are those.
TEST(RandomTest, MixIsThatOfSplitMix64) {
  constexpr uint64_t kGamma = 0x9e3779b97f4a7c15u;
  constexpr uint64_t kStart = 1234567;
  EXPECT_EQ(MixBits(kStart + kGamma), 6457827717110365317u);
  EXPECT_EQ(MixBits(kStart + 2 * kGamma), 3203168211198807973u);
  EXPECT_EQ(MixBits(kStart + 3 * kGamma), 9817491932198370423u);
}

// Texts generated from a seed must not change with a release.
TEST(RandomTest, NumbersNeverChange) {
  static_assert(RandomBits(0, 0) == RandomBits(0, 0));
  EXPECT_EQ(RandomBits(0, 0),
            MixBits(MixBits(0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u));
  EXPECT_NE(RandomBits(0, 1), RandomBits(1, 0));
}

TEST(RandomTest, UnitIsBelowOneAndFillsItsBinsEvenly) {
  constexpr int kBins = 16;
  constexpr int kDraws = 16000;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    int counts[kBins] = {};
    for (int i = 0; i < kDraws; ++i) {
      const double unit = RandomUnit(seed, static_cast<uint64_t>(i));
      ASSERT_GE(unit, 0.0);
      ASSERT_LT(unit, 1.0);
      ++counts[static_cast<int>(unit * kBins)];
    }
    double chi_square = 0;
    for (int count : counts) {
      const double difference = count - kDraws / kBins;
      chi_square += difference * difference / (kDraws / kBins);
    }
    EXPECT_LT(chi_square, 37.7) << seed;  // 15 degrees of freedom, p = 0.001
  }
}

}  // namespace
}  // namespace lowmem
