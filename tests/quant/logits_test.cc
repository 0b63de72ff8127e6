// SPDX-License-Identifier: Apache-2.0
// What chooses among logits, on every target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "quant/vector_ops.h"
#include "tests/quant/kernels/each_target.h"
#include "tests/quant/kernels/lane_reference.h"
#include "tests/quant/kernels/vector_reference.h"

namespace lowmem {
namespace {

using ::lowmem::testing::ExpByDefinition;
using ::lowmem::testing::kInf;
using ::lowmem::testing::kMax;
using ::lowmem::testing::kNaN;
using ::lowmem::testing::Lengths;
using ::lowmem::testing::Padded;
using ::lowmem::testing::RandomFloats;
using ::lowmem::testing::SameBits;
using ::lowmem::testing::UlpsFrom;

class LogitsTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(LogitsTest);

TEST_P(LogitsTest, ArgMaxFindsTheFirstOfEquals) {
  for (const size_t n : Lengths()) {
    for (const size_t place : {size_t{0}, n / 3, n / 2, n - 1}) {
      std::vector<float> x(n, -7.0f);
      x[place] = -6.5f;
      x[n - 1] = -6.5f;
      EXPECT_EQ(ArgMax(x.data(), n), place) << n;
    }
  }
}

TEST_P(LogitsTest, ArgMaxPassesOverNaN) {
  struct Case {
    std::vector<float> values;
    size_t expected;
  };
  const Case cases[] = {{{kNaN, 1.0f, kNaN, 2.0f}, 3},
                        {{kNaN, -kInf}, 1},
                        {{kNaN, kNaN}, 0},
                        {{-kInf, -kInf}, 0},
                        {{1.0f, kInf, kInf}, 1},
                        {{-0.0f, 0.0f}, 0},
                        {{kNaN}, 0}};
  for (const Case& c : cases) {
    EXPECT_EQ(ArgMax(c.values.data(), c.values.size()), c.expected);
    // The same far into a long vector.
    std::vector<float> padded(40, kNaN);
    padded.insert(padded.end(), c.values.begin(), c.values.end());
    if (!std::isnan(c.values[c.expected])) {
      EXPECT_EQ(ArgMax(padded.data(), padded.size()), 40 + c.expected);
    }
  }
}

TEST_P(LogitsTest, FindAboveFindsTheFirstFromAnyPlaceOn) {
  for (size_t n = 0; n <= 70; ++n) {
    for (size_t place = 0; place < n; ++place) {
      Padded x(std::vector<float>(n, 1.0f), n % 17);
      x.data()[place] = std::nextafter(1.0f, 2.0f);
      x.data()[n - 1] = 5.0f;
      for (size_t begin = 0; begin <= n; ++begin) {
        const size_t expected = begin <= place ? place : begin < n ? n - 1 : n;
        ASSERT_EQ(FindAbove(x.data(), begin, n, 1.0f), expected)
            << n << " " << place << " " << begin;
      }
      // NaN is all around.
      ASSERT_EQ(FindAbove(x.data(), 0, n, 5.0f), n);
    }
  }
}

TEST_P(LogitsTest, FindAbovePassesOverNaNAndEquals) {
  for (const size_t ofs : {size_t{0}, size_t{33}}) {
    std::vector<float> x(ofs, kNaN);
    x.insert(x.end(), {kNaN, -kInf, -kMax, -0.0f, 0.0f, kMax, kInf});
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), -kInf), ofs + 2);
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), -kMax), ofs + 3);
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), -0.0f), ofs + 5);
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), kMax), ofs + 6);
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), kInf), x.size());
    EXPECT_EQ(FindAbove(x.data(), 0, x.size(), kNaN), x.size());
  }
}

TEST_P(LogitsTest, ScaleLogitsIsADifferenceAndAQuotientEach) {
  for (const size_t n : Lengths()) {
    const std::vector<float> x = RandomFloats(n, 41);
    Padded in(x, n % 5), out(std::vector<float>(n), n % 17);
    ScaleLogits(in.data(), 3.0f, 0.7f, n, out.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_THAT(out.data()[i], SameBits((x[i] - 3.0f) / 0.7f)) << n;
    }
    EXPECT_TRUE(out.NeighboursUntouched()) << n;
  }
}

TEST_P(LogitsTest, ScaleLogitsGivesNoNaN) {
  std::vector<float> x = {kNaN, -kInf, -kMax, 0.0f, kMax, kInf};
  constexpr float kTiny = std::numeric_limits<float>::min();
  ScaleLogits(x.data(), kMax, kTiny, x.size(), x.data());
  EXPECT_THAT(x, ::testing::ElementsAre(-kInf, -kInf, -kInf, -kInf, 0, 0));
}

TEST_P(LogitsTest, AllFiniteSeesEveryElement) {
  for (size_t n = 0; n <= 70; ++n) {
    std::vector<float> x(n, kMax);
    EXPECT_TRUE(AllFinite(x.data(), n));
    for (size_t i = 0; i < n; ++i) {
      for (const float bad : {kInf, -kInf, kNaN}) {
        x[i] = bad;
        EXPECT_FALSE(AllFinite(x.data(), n)) << n << " " << i;
      }
      x[i] = -std::numeric_limits<float>::denorm_min();
    }
    EXPECT_TRUE(AllFinite(x.data(), n));
  }
}

}  // namespace
}  // namespace lowmem
