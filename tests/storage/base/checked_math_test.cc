// SPDX-License-Identifier: Apache-2.0
#include "storage/base/checked_math.h"

#include "gtest/gtest.h"

namespace lowmem {
namespace {

constexpr uint64_t kMax = ~uint64_t{0};

TEST(CheckedMathTest, AddReportsOverflow) {
  EXPECT_EQ(CheckedAdd(kMax - 1, 1), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
}

TEST(CheckedMathTest, MulReportsOverflow) {
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1),
            kMax - (uint64_t{1} << 32) + 1);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(0, kMax), 0u);
}

TEST(CheckedMathTest, RoundUpReportsOverflow) {
  EXPECT_EQ(CheckedRoundUp(0, 64), 0u);
  EXPECT_EQ(CheckedRoundUp(1, 64), 64u);
  EXPECT_EQ(CheckedRoundUp(64, 64), 64u);
  EXPECT_EQ(CheckedRoundUp(10, 3), 12u);
  EXPECT_EQ(CheckedRoundUp(kMax, 64), std::nullopt);
  EXPECT_EQ(CheckedRoundUp(kMax - 63, 64), kMax - 63);
}

TEST(CheckedMathTest, RangeFitsWithoutWrapping) {
  EXPECT_TRUE(RangeFits(0, 10, 10));
  EXPECT_TRUE(RangeFits(10, 0, 10));
  EXPECT_FALSE(RangeFits(1, 10, 10));
  EXPECT_FALSE(RangeFits(11, 0, 10));
  EXPECT_FALSE(RangeFits(kMax, 2, 10));
  EXPECT_FALSE(RangeFits(2, kMax, 10));
}

}  // namespace
}  // namespace lowmem
