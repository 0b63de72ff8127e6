// SPDX-License-Identifier: Apache-2.0
// Runs tests once on every instruction set that was compiled and that this
// processor has.
//   class XTest : public EachTargetTest {};
//   INSTANTIATE_ON_EACH_TARGET(XTest);
//   TEST_P(XTest, DoesThis) {...}

#ifndef LOWMEM_TESTS_QUANT_KERNELS_EACH_TARGET_H_
#define LOWMEM_TESTS_QUANT_KERNELS_EACH_TARGET_H_

#include <cstdint>
#include <string>
#include <vector>

// clang-format off
#include "quant/kernels/simd_targets.h"
// clang-format on
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace lowmem::testing {

// Whether a target takes denormal numbers for zero, given and computed: NEON of
// 32 bits, whatever the mode of the processor.
inline bool FlushesDenormals(int64_t target) {
#if HWY_ARCH_ARM_V7
  return target == HWY_NEON;
#else
  static_cast<void>(target);
  return false;
#endif
}

// The instruction sets to choose from; 0 stands for all that the processor has.
// Plain code of the calling thread, as references are, flushes denormals if the
// chosen one does.
inline void ChooseTargets(int64_t targets) {
#if HWY_ARCH_ARM_V7
  constexpr unsigned kFlushToZero = 1u << 24;
  const unsigned mode = __builtin_arm_get_fpscr() & ~kFlushToZero;
  __builtin_arm_set_fpscr(FlushesDenormals(targets) ? mode | kFlushToZero
                                                    : mode);
#endif
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Whether a target's multiply-add rounds once. Results of those that do are
// equal by bits; of the others only those of one target.
inline bool IsFusedTarget(int64_t target) {
  return (target & (HWY_SSE4 | HWY_SCALAR | HWY_EMU128)) == 0;
}

// Where one target was chosen when compiling, Highway does not know that of the
// processor it finds: it asks for AES on ARM.
inline std::vector<int64_t> TestedTargets() {
#ifdef HWY_COMPILE_ONLY_STATIC
  return {HWY_STATIC_TARGET};
#else
  return hwy::SupportedAndGeneratedTargets();
#endif
}

class EachTargetTest : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { ChooseTargets(GetParam()); }
  void TearDown() override { ChooseTargets(0); }

  bool IsFused() const { return IsFusedTarget(GetParam()); }
  bool FlushesDenormals() const {
    return testing::FlushesDenormals(GetParam());
  }
};

inline std::string TargetOf(const ::testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

}  // namespace lowmem::testing

#define INSTANTIATE_ON_EACH_TARGET(fixture)                               \
  INSTANTIATE_TEST_SUITE_P(                                               \
      , fixture, ::testing::ValuesIn(::lowmem::testing::TestedTargets()), \
      ::lowmem::testing::TargetOf)

#endif  // LOWMEM_TESTS_QUANT_KERNELS_EACH_TARGET_H_
