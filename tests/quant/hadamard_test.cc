// SPDX-License-Identifier: Apache-2.0
#include "quant/hadamard.h"

#include <bit>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/quant/kernels/lane_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::RandomFloats;

TEST(HadamardTest, RunIsTheLargestPowerOfTwoThatDivides) {
  struct Case {
    size_t n, run;
  };
  for (const Case& c : {Case{1, 1}, Case{2, 2}, Case{17, 1}, Case{18, 2},
                        Case{64, 64}, Case{80, 16}, Case{96, 32}, Case{112, 16},
                        Case{128, 128}, Case{192, 64}, Case{256, 256}}) {
    EXPECT_EQ(HadamardRun(c.n), c.run) << c.n;
  }
}

TEST(HadamardTest, IsTheMatrixOfSigns) {
  for (size_t n = 1; n <= 256; ++n) {
    const size_t run = HadamardRun(n);
    const std::vector<float> x = RandomFloats(n, static_cast<uint32_t>(n));
    std::vector<float> got = x;
    Hadamard(n, 0.5f, got.data());
    for (size_t i = 0; i < n; ++i) {
      double expected = 0;
      double magnitude = 0;
      for (size_t k = 0; k < run; ++k) {
        const double value = x[i / run * run + k];
        // Element (i, k) of H is -1 to the number of bits that i and k share.
        expected += std::popcount(i % run & k) % 2 == 0 ? value : -value;
        magnitude += std::fabs(value);
      }
      // One rounding for each of at most 8 steps.
      ASSERT_NEAR(got[i], expected / 2, magnitude * 8 * 0x1p-24)
          << n << " " << i;
    }
  }
}

TEST(HadamardTest, TwiceIsTheVectorTimesTheRun) {
  for (const size_t n : {1, 2, 3, 64, 80, 96, 128, 256}) {
    std::vector<float> x(n);
    for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 7);
    std::vector<float> twice = x;
    Hadamard(n, 1.0f, twice.data());
    Hadamard(n, 1.0f / static_cast<float>(HadamardRun(n)), twice.data());
    EXPECT_EQ(twice, x) << n;  // small integers and a power of two: exact
  }
}

}  // namespace
}  // namespace lowmem
