// SPDX-License-Identifier: Apache-2.0
#include "storage/base/memory_account.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

TEST(MemoryAccountTest, ChargeIsHeldAsLongAsItLives) {
  MemoryAccount account("all", 100, nullptr);
  {
    ASSERT_OK_AND_ASSIGN(const MemoryCharge charge, account.Reserve(60));
    EXPECT_EQ(charge.num_bytes(), 60u);
    EXPECT_EQ(account.used_bytes(), 60u);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
  EXPECT_EQ(account.peak_bytes(), 60u);
}

TEST(MemoryAccountTest, LimitMayBeFilledToTheByte) {
  MemoryAccount account("all", 100, nullptr);
  ASSERT_OK_AND_ASSIGN(const MemoryCharge charge, account.Reserve(100));
  EXPECT_THAT(account.Reserve(1), Fails(kResourceExhausted, "all: "));
  EXPECT_THAT(account.Reserve(0), testing::IsOk());
}

TEST(MemoryAccountTest, ChargesAddUp) {
  MemoryAccount account("all", 100, nullptr);
  {
    MemoryCharge sum;
    for (const uint64_t num_bytes : {10, 0, 20}) {
      ASSERT_OK_AND_ASSIGN(MemoryCharge more,
                           MemoryAccount::ReserveIn(&account, num_bytes));
      sum.Add(std::move(more));
    }
    sum.Add(MemoryCharge());
    EXPECT_EQ(sum.num_bytes(), 30u);
    EXPECT_EQ(account.used_bytes(), 30u);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
  ASSERT_OK_AND_ASSIGN(const MemoryCharge nothing,
                       MemoryAccount::ReserveIn(nullptr, 1000));
  EXPECT_EQ(nothing.num_bytes(), 0u);
}

TEST(MemoryAccountTest, RefusalSaysWhoAskedAndWhoRefused) {
  MemoryAccount root("budget", 4 << 20, nullptr);
  MemoryAccount child("kv cache", MemoryAccount::kUnlimited, &root);
  ASSERT_OK_AND_ASSIGN(const MemoryCharge charge, root.Reserve(3 << 20));
  EXPECT_EQ(child.Reserve(2 << 20).status().message(),
            "budget: does not fit the memory limit; expected at most 4.00 MiB, "
            "got 2.00 MiB for kv cache on top of 3.00 MiB");
}

TEST(MemoryAccountTest, ChargesCountUpToTheRoot) {
  MemoryAccount root("root", 100, nullptr);
  MemoryAccount a("a", 80, &root);
  MemoryAccount b("b", MemoryAccount::kUnlimited, &root);
  ASSERT_OK_AND_ASSIGN(const MemoryCharge in_a, a.Reserve(50));
  ASSERT_OK_AND_ASSIGN(const MemoryCharge in_b, b.Reserve(30));
  EXPECT_EQ(a.used_bytes(), 50u);
  EXPECT_EQ(b.used_bytes(), 30u);
  EXPECT_EQ(root.used_bytes(), 80u);
}

TEST(MemoryAccountTest, RefusalFurtherUpLeavesNothingBehind) {
  MemoryAccount root("root", 10, nullptr);
  MemoryAccount middle("middle", 100, &root);
  MemoryAccount leaf("leaf", 100, &middle);
  EXPECT_THAT(leaf.Reserve(11), Fails(kResourceExhausted, "root: "));
  for (const MemoryAccount* account : {&root, &middle, &leaf}) {
    EXPECT_EQ(account->used_bytes(), 0u) << account->name();
    EXPECT_EQ(account->peak_bytes(), 0u) << account->name();
  }
}

TEST(MemoryAccountTest, RefusalInTheMiddleIsNamed) {
  MemoryAccount root("root", 100, nullptr);
  MemoryAccount middle("middle", 10, &root);
  MemoryAccount leaf("leaf", 100, &middle);
  EXPECT_THAT(leaf.Reserve(11), Fails(kResourceExhausted, "middle: "));
  EXPECT_EQ(root.used_bytes(), 0u);
}

TEST(MemoryAccountTest, SumsThatWrapAreRefused) {
  MemoryAccount account("all", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(const MemoryCharge charge, account.Reserve(1));
  EXPECT_THAT(account.Reserve(MemoryAccount::kUnlimited),
              Fails(kResourceExhausted, "all: "));
}

TEST(MemoryChargeTest, MovedChargeIsGivenBackOnce) {
  MemoryAccount account("all", 100, nullptr);
  ASSERT_OK_AND_ASSIGN(MemoryCharge first, account.Reserve(40));
  {
    const MemoryCharge second = std::move(first);
    EXPECT_EQ(second.num_bytes(), 40u);
    EXPECT_EQ(first.num_bytes(), 0u);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(account.used_bytes(), 40u);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(MemoryChargeTest, AssignmentGivesBackWhatWasHeld) {
  MemoryAccount account("all", 100, nullptr);
  ASSERT_OK_AND_ASSIGN(MemoryCharge charge, account.Reserve(40));
  ASSERT_OK_AND_ASSIGN(charge, account.Reserve(10));
  EXPECT_EQ(account.used_bytes(), 10u);
  charge = MemoryCharge();
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(MemoryChargeTest, SelfAssignmentKeepsIt) {
  MemoryAccount account("all", 100, nullptr);
  ASSERT_OK_AND_ASSIGN(MemoryCharge charge, account.Reserve(40));
  MemoryCharge& alias = charge;
  charge = std::move(alias);
  EXPECT_EQ(charge.num_bytes(), 40u);
  EXPECT_EQ(account.used_bytes(), 40u);
}

TEST(MemoryAccountTest, ThreadsNeverExceedTheLimitTogether) {
  MemoryAccount root("root", 10, nullptr);
  MemoryAccount child("child", MemoryAccount::kUnlimited, &root);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const absl::StatusOr<MemoryCharge> charge = child.Reserve(3);
        EXPECT_LE(root.used_bytes(), 10u);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(root.used_bytes(), 0u);
  EXPECT_EQ(child.used_bytes(), 0u);
  EXPECT_LE(root.peak_bytes(), 10u);
}

}  // namespace
}  // namespace lowmem
