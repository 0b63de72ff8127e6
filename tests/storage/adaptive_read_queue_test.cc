// SPDX-License-Identifier: Apache-2.0
// Who reads what, with disks and a clock that only count.
#include "storage/adaptive_read_queue.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using testing::IsOk;

constexpr uint32_t kNumSlots = 16;
constexpr uint64_t kPieceBytes = 256 << 10;

struct Disk {
  double now_s = 0;
  uint64_t num_started = 0;
  uint64_t num_ended = 0;
  int num_queues = 0;
};

// Reads one after the other at a fixed rate, in no time but the disk's.
class CountingQueue final : public ReadQueue {
 public:
  CountingQueue(std::string name, double bytes_per_s, Disk& disk)
      : name_(std::move(name)),
        bytes_per_s_(bytes_per_s),
        disk_(disk),
        ends_s_(kNumSlots, -1) {
    ++disk_.num_queues;
  }
  ~CountingQueue() override { --disk_.num_queues; }
  void Start(uint32_t slot, const BlockRead& read) override {
    EXPECT_LT(ends_s_[slot], 0) << "started twice";
    free_s_ = std::max(free_s_, disk_.now_s) + read.num_bytes / bytes_per_s_;
    ends_s_[slot] = free_s_;
    ++disk_.num_started;
  }
  void Submit() override {}
  bool IsDone(uint32_t slot) override {
    EXPECT_GE(ends_s_[slot], 0) << "of another queue";
    return ends_s_[slot] <= disk_.now_s;
  }
  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    disk_.now_s =
        std::max(disk_.now_s,
                 std::min(ends_s_[slot], disk_.now_s + timeout_ms / 1000.0));
    return IsDone(slot);
  }
  absl::Status Wait(uint32_t slot) override {
    EXPECT_GE(ends_s_[slot], 0) << "of another queue";
    disk_.now_s = std::max(disk_.now_s, ends_s_[slot]);
    ends_s_[slot] = -1;
    ++disk_.num_ended;
    return name_ == "broken" ? absl::UnavailableError("broken")
                             : absl::OkStatus();
  }
  std::string description() const override { return name_; }

 private:
  const std::string name_;
  const double bytes_per_s_;
  Disk& disk_;
  std::vector<double> ends_s_;
  double free_s_ = 0;
};

class AdaptiveReadQueueTest : public ::testing::Test {
 protected:
  struct Method {
    std::string name;
    double bytes_per_s;
  };
  std::unique_ptr<ReadQueue> Open(const std::vector<Method>& methods) {
    std::vector<std::unique_ptr<ReadQueue>> queues;
    for (const Method& method : methods) {
      queues.push_back(std::make_unique<CountingQueue>(
          method.name, method.bytes_per_s, disk_));
    }
    return NewAdaptiveReadQueue(std::move(queues), kNumSlots,
                                [this] { return disk_.now_s; });
  }
  // As a ring does, computing for `compute_s` with each piece.
  void Read(ReadQueue& queue, uint64_t num_bytes, double compute_s = 0) {
    const uint64_t num_pieces = num_bytes / kPieceBytes;
    for (uint64_t i = 0; i < num_pieces; ++i) {
      while (num_started_ < num_waited_ + kNumSlots) {
        queue.Start(static_cast<uint32_t>(num_started_++ % kNumSlots),
                    {.num_bytes = kPieceBytes});
      }
      ASSERT_THAT(queue.Wait(static_cast<uint32_t>(num_waited_++ % kNumSlots)),
                  IsOk());
      disk_.now_s += compute_s;
    }
  }

  Disk disk_;
  uint64_t num_started_ = 0;
  uint64_t num_waited_ = 0;
};

TEST_F(AdaptiveReadQueueTest, StaysWithTheFastestAndClosesTheOthers) {
  for (size_t fastest = 0; fastest < 3; ++fastest) {
    SCOPED_TRACE(fastest);
    std::vector<Method> methods = {{"a", 1e9}, {"b", 1e9}, {"c", 1e9}};
    methods[fastest].bytes_per_s = 2e9;
    disk_ = Disk();
    num_started_ = num_waited_ = 0;
    auto queue = Open(methods);
    EXPECT_FALSE(queue->measured_bytes_per_s().has_value());
    Read(*queue, 400 << 20);
    EXPECT_EQ(queue->description(), methods[fastest].name);
    EXPECT_NEAR(queue->measured_bytes_per_s().value_or(0), 2e9, 2e7);
    EXPECT_EQ(disk_.num_queues, 1);
    // Each read by one method, once.
    EXPECT_EQ(disk_.num_started, num_started_);
    EXPECT_EQ(disk_.num_ended, num_waited_);
    queue.reset();
    EXPECT_EQ(disk_.num_queues, 0);
  }
}

TEST_F(AdaptiveReadQueueTest, AMethodThatIsForcedIsMeasuredAndStays) {
  const auto queue = Open({{"a", 1e8}});
  Read(*queue, 40 << 20);
  EXPECT_EQ(queue->description(), "a");
  EXPECT_NEAR(queue->measured_bytes_per_s().value_or(0), 1e8, 1e6);
}

TEST_F(AdaptiveReadQueueTest, ADiskThatIsNeverWaitedForIsNotMeasured) {
  const auto queue = Open({{"a", 1e9}, {"b", 1e10}});
  Read(*queue, 400 << 20, 1.0);
  EXPECT_EQ(queue->description(), "a");
  EXPECT_FALSE(queue->measured_bytes_per_s().has_value());
  EXPECT_EQ(disk_.num_queues, 1);
}

TEST_F(AdaptiveReadQueueTest, ASlowDiskIsMeasuredByTimeNotBytes) {
  const auto queue = Open({{"a", 20e6}, {"b", 20e6}, {"c", 20e6}});
  Read(*queue, 80 << 20);
  EXPECT_EQ(queue->description(), "a");
  EXPECT_NEAR(queue->measured_bytes_per_s().value_or(0), 20e6, 1e6);
}

TEST_F(AdaptiveReadQueueTest, WaitingForAWhileCountsAsWaiting) {
  const auto queue = Open({{"a", 1e9}});
  for (int i = 0; i < 100; ++i) {
    Read(*queue, kPieceBytes);
    while (!queue->WaitAtMost(num_waited_ % kNumSlots, 1)) {
    }
  }
  EXPECT_NEAR(queue->measured_bytes_per_s().value_or(0), 1e9, 1e7);
}

TEST_F(AdaptiveReadQueueTest, AFailureIsThatOfItsRead) {
  const auto queue = Open({{"a", 1e9}, {"broken", 1e9}});
  int num_failed = 0;
  for (int i = 0; i < 400; ++i) {
    queue->Start(3, {.num_bytes = kPieceBytes});
    num_failed += !queue->Wait(3).ok();
  }
  EXPECT_GT(num_failed, 10);
  EXPECT_EQ(queue->description(), "a");
}

}  // namespace
}  // namespace lowmem
