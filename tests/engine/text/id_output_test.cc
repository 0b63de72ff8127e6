// SPDX-License-Identifier: Apache-2.0
#include "engine/text/id_output.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::testing::ElementsAre;
using testing::Fails;
using testing::IsOk;

TEST(IdOutputTest, HoldsAsManyAsAskedFor) {
  IdOutput ids(3, nullptr);
  ids.SetAside(100);
  EXPECT_THAT(ids.Append({7, 8}), IsOk());
  EXPECT_THAT(ids.CheckRoom(1), IsOk());
  EXPECT_THAT(ids.AppendAgain(0, 2),
              Fails(absl::StatusCode::kOutOfRange,
                    "too many tokens; expected at most 3"));
  EXPECT_THAT(ids.AppendAgain(1, 1), IsOk());
  EXPECT_THAT(ids.CheckRoom(1), Fails(absl::StatusCode::kOutOfRange, ""));
  EXPECT_THAT(std::move(ids).Take(), ElementsAre(7, 8, 8));
}

TEST(IdOutputTest, IsChargedAsIdsComeWhateverWasSetAside) {
  constexpr size_t kCount = 100000;
  for (const size_t set_aside : {size_t{0}, size_t{10}, 2 * kCount}) {
    MemoryAccount account("text", MemoryAccount::kUnlimited, nullptr);
    {
      IdOutput ids(kCount, &account);
      ids.SetAside(set_aside);
      EXPECT_EQ(account.used_bytes(), 0u);
      for (size_t i = 0; i < kCount; ++i) {
        ASSERT_THAT(ids.Append({static_cast<int32_t>(i)}), IsOk());
        ASSERT_GE(account.used_bytes(), 4 * (i + 1));
      }
      EXPECT_LE(account.used_bytes(), 4 * kCount + (16 << 10));
      const std::vector<int32_t> taken = std::move(ids).Take();
      for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(taken[i], int(i));
    }
    EXPECT_EQ(account.used_bytes(), 0u);
  }
}

TEST(IdOutputTest, RefusedIdsAreNotTaken) {
  MemoryAccount account("text", 1 << 16, nullptr);
  IdOutput ids(1 << 20, &account);
  ids.SetAside(1 << 20);
  EXPECT_THAT(ids.Append(std::vector<int32_t>(1 << 14)), IsOk());
  EXPECT_THAT(ids.Append({1}),
              Fails(absl::StatusCode::kResourceExhausted, "text: "));
  EXPECT_EQ(ids.size(), 1u << 14);
}

}  // namespace
}  // namespace lowmem
