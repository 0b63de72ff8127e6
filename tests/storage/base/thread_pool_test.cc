// SPDX-License-Identifier: Apache-2.0
#include "storage/base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::Fails;

std::unique_ptr<ThreadPool> MakePool(size_t num_threads) {
  absl::StatusOr<std::unique_ptr<ThreadPool>> pool =
      ThreadPool::Create(num_threads);
  EXPECT_THAT(pool, testing::IsOk());
  return *std::move(pool);
}

TEST(ThreadPoolTest, NumberOfThreadsIsChecked) {
  for (const size_t num_threads :
       {size_t{0}, size_t{1025}, std::numeric_limits<size_t>::max()}) {
    EXPECT_THAT(ThreadPool::Create(num_threads),
                Fails(absl::StatusCode::kInvalidArgument, "expected 1 to 1024"))
        << num_threads;
  }
  EXPECT_EQ(MakePool(1)->num_threads(), 1u);
  EXPECT_EQ(MakePool(3)->num_threads(), 3u);
}

TEST(ThreadPoolTest, MoreThreadsThanProcessorsDoNotSpin) {
  struct Case {
    size_t num_threads, num_processors;
    bool spins;
  };
  for (const Case& c :
       {Case{1, 1, true}, Case{2, 1, false}, Case{2, 2, true}, Case{2, 3, true},
        Case{5, 4, false},
        Case{64, 0, std::thread::hardware_concurrency() >= 64}}) {
    absl::StatusOr<std::unique_ptr<ThreadPool>> pool =
        ThreadPool::Create(c.num_threads, c.num_processors);
    ASSERT_THAT(pool, testing::IsOk());
    EXPECT_EQ((*pool)->spins(), c.spins)
        << c.num_threads << " " << c.num_processors;
    std::atomic<size_t> num_items{0};
    for (int round = 0; round < 3; ++round) {
      (*pool)->ParallelFor(100, 1, [&](size_t begin, size_t end, size_t) {
        num_items.fetch_add(end - begin);
      });
    }
    EXPECT_EQ(num_items.load(), 300u);
  }
}

TEST(ThreadPoolTest, EveryItemOnceForAllGrainsAndThreadCounts) {
  for (const size_t num_threads : {1, 2, 3, 7}) {
    const std::unique_ptr<ThreadPool> pool = MakePool(num_threads);
    for (const size_t num_items : {0, 1, 2, 7, 16, 64, 1000}) {
      for (const size_t grain : {0, 1, 3, 16, 999, 1000, 5000}) {
        std::vector<std::atomic<int>> visits(num_items);
        std::atomic<int> num_bad{0};
        pool->ParallelFor(num_items, grain,
                          [&](size_t begin, size_t end, size_t thread_idx) {
                            if (begin >= end || end > num_items ||
                                thread_idx >= num_threads ||
                                (grain > 0 && begin % grain != 0)) {
                              num_bad.fetch_add(1);
                              return;
                            }
                            for (size_t i = begin; i < end; ++i)
                              visits[i].fetch_add(1);
                          });
        EXPECT_EQ(num_bad.load(), 0) << num_threads << " threads, " << num_items
                                     << " items, grain " << grain;
        for (const std::atomic<int>& count : visits) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ThreadPoolTest, LargestItemCountDoesNotOverflow) {
  const std::unique_ptr<ThreadPool> pool = MakePool(3);
  constexpr size_t kNumItems = std::numeric_limits<size_t>::max();
  for (const size_t grain : {kNumItems, kNumItems / 2, kNumItems / 5}) {
    std::atomic<size_t> num_items{0};
    pool->ParallelFor(kNumItems, grain, [&](size_t begin, size_t end, size_t) {
      num_items.fetch_add(end - begin);
    });
    EXPECT_EQ(num_items.load(), kNumItems);
  }
}

TEST(ThreadPoolTest, OneThreadIndexIsNeverUsedTwiceAtATime) {
  constexpr size_t kNumThreads = 4;
  const std::unique_ptr<ThreadPool> pool = MakePool(kNumThreads);
  std::atomic<bool> busy[kNumThreads] = {};
  std::atomic<int> num_clashes{0};
  for (int i = 0; i < 200; ++i) {
    pool->ParallelFor(64, 1, [&](size_t, size_t, size_t thread_idx) {
      if (busy[thread_idx].exchange(true)) num_clashes.fetch_add(1);
      busy[thread_idx].store(false);
    });
  }
  EXPECT_EQ(num_clashes.load(), 0);
}

TEST(ThreadPoolTest, WorkersTakePart) {
  const std::unique_ptr<ThreadPool> pool = MakePool(2);
  std::atomic<int> num_inside{0};
  // Neither range ends before both have begun, so two threads must run them.
  pool->ParallelFor(2, 1, [&](size_t, size_t, size_t) {
    num_inside.fetch_add(1);
    while (num_inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(num_inside.load(), 2);
}

// What the body wrote without atomics is the caller's when the call returns,
// and the next body's too; the thread sanitizer checks the same.
TEST(ThreadPoolTest, ReusedTenThousandTimesWithPlainWrites) {
  const std::unique_ptr<ThreadPool> pool = MakePool(3);
  std::vector<uint64_t> sums(48, 0);
  for (uint64_t round = 1; round <= 10'000; ++round) {
    pool->ParallelFor(sums.size(), 1, [&](size_t begin, size_t end, size_t) {
      for (size_t i = begin; i < end; ++i) sums[i] += round;
    });
    ASSERT_EQ(sums[round % sums.size()], round * (round + 1) / 2);
  }
  for (const uint64_t sum : sums) EXPECT_EQ(sum, 10'000ull * 10'001 / 2);
}

TEST(ThreadPoolTest, SleepingWorkersWakeForTheNextLoop) {
  const std::unique_ptr<ThreadPool> pool = MakePool(2);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> num_inside{0};
    pool->ParallelFor(2, 1, [&](size_t, size_t, size_t) {
      num_inside.fetch_add(1);
      while (num_inside.load() < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPoolTest, CallerWaitsForALongRange) {
  const std::unique_ptr<ThreadPool> pool = MakePool(2);
  bool done[2] = {};
  std::atomic<int> num_inside{0};
  pool->ParallelFor(2, 1, [&](size_t begin, size_t, size_t thread_idx) {
    num_inside.fetch_add(1);
    while (num_inside.load() < 2) std::this_thread::yield();
    if (thread_idx != 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    done[begin] = true;
  });
  EXPECT_TRUE(done[0]);
  EXPECT_TRUE(done[1]);
}

TEST(ThreadPoolTest, UnusedPoolsAreDestroyed) {
  for (int i = 0; i < 50; ++i) MakePool(4);
}

}  // namespace
}  // namespace lowmem
