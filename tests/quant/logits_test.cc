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
