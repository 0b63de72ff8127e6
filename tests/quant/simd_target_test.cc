// SPDX-License-Identifier: Apache-2.0
#include "quant/simd_target.h"

#include <string>

#include "gmock/gmock.h"
#include "quant/vector_ops.h"
#include "tests/quant/kernels/each_target.h"

namespace lowmem {
namespace {

class SimdTargetTest : public lowmem::testing::EachTargetTest {};
INSTANTIATE_ON_EACH_TARGET(SimdTargetTest);

TEST_P(SimdTargetTest, IsTheOneThatIsDispatchedTo) {
  const SimdTarget target = ChosenSimdTarget();
  const std::string name = hwy::TargetName(GetParam());
  EXPECT_EQ(target.name, name.starts_with("AVX3") ? "AVX-512" : name);
  EXPECT_EQ(target.has_fused_multiply_add, IsFused());
  // (1 + 2^-20) (1 - 2^-20) - 1: the product rounds to 1.
  const float x = 1.0f - 0x1p-20f;
  float sum = -1.0f;
  ScaleAdd(1.0f + 0x1p-20f, &x, 1, &sum);
  EXPECT_EQ(sum, target.has_fused_multiply_add ? -0x1p-40f : 0.0f);
}

}  // namespace
}  // namespace lowmem
