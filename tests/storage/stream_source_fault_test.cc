// SPDX-License-Identifier: Apache-2.0
// Streaming from files that fail, and what is refused before the first read.
#include <atomic>
#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/stream_source.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::kSmallRing;
using testing::NoProgress;
using testing::StreamedModel;
using testing::TakePass;
using testing::TakeRows;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Fails its n-th Wait, after the read it stands for.
class FaultyReadQueue final : public ReadQueue {
 public:
  FaultyReadQueue(std::unique_ptr<ReadQueue> queue, int failing_wait)
      : queue_(std::move(queue)), failing_wait_(failing_wait) {}
  void Start(uint32_t slot, const BlockRead& read) override {
    queue_->Start(slot, read);
  }
  void Submit() override { queue_->Submit(); }
  bool IsDone(uint32_t slot) override { return queue_->IsDone(slot); }
  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    return queue_->WaitAtMost(slot, timeout_ms);
  }
  absl::Status Wait(uint32_t slot) override {
    absl::Status status = queue_->Wait(slot);
    if (num_waits_++ != failing_wait_) return status;
    return absl::UnavailableError("model: cannot read: injected fault");
  }
  std::string description() const override { return "faulty"; }

 private:
  const std::unique_ptr<ReadQueue> queue_;
  const int failing_wait_;
  int num_waits_ = 0;
};

absl::StatusOr<std::unique_ptr<StreamSource>> OpenFaulty(
    const StreamedModel& model, double share, int failing_wait,
    MemoryAccount& account) {
  return NewStreamSourceOver(
      [&](uint32_t num_slots, absl::Span<uint8_t> probe)
          -> absl::StatusOr<std::unique_ptr<ReadQueue>> {
        auto queue = OpenReadQueue(
            model.checkpoint(),
            {.method = IoMethod::kBuffered, .num_slots = num_slots}, probe);
        if (!queue.ok()) return queue.status();
        return std::make_unique<FaultyReadQueue>(*std::move(queue),
                                                 failing_wait);
      },
      model.checkpoint(), model.PlanFor(share), kSmallRing, account,
      NoProgress);
}

TEST(StreamSourceFaultTest, AfterAnyFailedReadTheNextTryGivesTheRightBytes) {
  const StreamedModel model;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  bool has_failed = true;
  int num_failed_loads = 0;
  int num_failed_passes = 0;
  for (int n = 0; has_failed; ++n) {
    SCOPED_TRACE(n);
    auto source = OpenFaulty(model, 0.3, n, account);
    if (!source.ok()) {
      EXPECT_THAT(source, Fails(kUnavailable, "injected"));
      EXPECT_EQ(account.used_bytes(), 0u);
      ++num_failed_loads;
      continue;
    }
    int num_failures = 0;
    ASSERT_THAT(TakePass(model, **source, ~0ull, &num_failures), IsOk());
    ASSERT_THAT(TakePass(model, **source, ~0ull, &num_failures), IsOk());
    ASSERT_LE(num_failures, 1);
    has_failed = num_failures == 1;
    num_failed_passes += num_failures;
  }
  EXPECT_GT(num_failed_loads, 10);
  EXPECT_GT(num_failed_passes, 50);
}

TEST(NewStreamSourceTest, RefusesWhatCannotWork) {
  const StreamedModel model;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  const struct {
    StreamRingShape ring;
    const char* message;
  } kCases[] = {
      {{16, 0}, "buffer size; expected a multiple of 4096"},
      {{16, 4095}, "buffer size"},
      {{16, uint64_t{1} << 31}, "buffer size"},
      {{0, 4096}, "number of buffers; expected 2"},
      {{1, 1 << 20}, "number of buffers"},
      {{5000, 4096}, "number of buffers"},
      {{10, 4096}, "for the largest row"},
  };
  const ResidencyPlan plan = model.PlanFor(0);
  for (const auto& c : kCases) {
    EXPECT_THAT(NewStreamSource(model.checkpoint(), plan, {.ring = c.ring},
                                account, NoProgress),
                Fails(absl::StatusCode::kInvalidArgument, c.message));
  }
  ResidencyPlan other = plan;
  other.steps[0][1].num_rows += 1000;
  EXPECT_THAT(
      NewStreamSource(model.checkpoint(), other, {}, account, NoProgress),
      Fails(absl::StatusCode::kInvalidArgument, "another checkpoint"));
  other = plan;
  other.looked_up[0].tensor = 1000;
  EXPECT_THAT(
      NewStreamSource(model.checkpoint(), other, {}, account, NoProgress),
      Fails(absl::StatusCode::kInvalidArgument, "another checkpoint"));
  MemoryAccount small("weights", plan.ring_bytes, nullptr);
  EXPECT_THAT(NewStreamSource(model.checkpoint(), plan, {.ring = kSmallRing},
                              small, NoProgress),
              Fails(absl::StatusCode::kResourceExhausted, "weights"));
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(NewStreamSourceTest, ATensorOutsideThePlanIsOurBug) {
  const StreamedModel model;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewStreamSource(model.checkpoint(), model.PlanFor(0),
                      {.ring = kSmallRing}, account, NoProgress));
  EXPECT_THAT(source->Acquire(model.Find("first"), 0, 1),
              Fails(absl::StatusCode::kInternal, "first"));
}

TEST(NewStreamSourceTest, LoadingCanBeCancelled) {
  const StreamedModel model;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  int num_calls = 0;
  EXPECT_THAT(NewStreamSource(model.checkpoint(), model.PlanFor(0.9),
                              {.ring = kSmallRing}, account,
                              [&](uint64_t done, uint64_t total) {
                                EXPECT_LT(done, total);
                                return ++num_calls < 3
                                           ? absl::OkStatus()
                                           : absl::CancelledError("stopped");
                              }),
              Fails(absl::StatusCode::kCancelled, "stopped"));
  EXPECT_EQ(num_calls, 3);
  EXPECT_EQ(account.used_bytes(), 0u);
}

// A disk that gives nothing while it is stopped, and sees to it that someone
// cancels on the n-th look at the clock.
class StoppedReadQueue final : public ReadQueue {
 public:
  struct Disk {
    bool is_stopped = false;
    bool is_late = false;  // nothing is there before it is waited for
    std::atomic<bool> cancel = false;
    int num_timeouts = 0;
  };
  StoppedReadQueue(std::unique_ptr<ReadQueue> queue, Disk& disk)
      : queue_(std::move(queue)), disk_(disk) {}
  void Start(uint32_t slot, const BlockRead& read) override {
    queue_->Start(slot, read);
  }
  void Submit() override { queue_->Submit(); }
  bool IsDone(uint32_t slot) override {
    return !disk_.is_stopped && !disk_.is_late && queue_->IsDone(slot);
  }
  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    EXPECT_LE(timeout_ms, 100);
    if (!disk_.is_stopped) return queue_->WaitAtMost(slot, timeout_ms);
    if (++disk_.num_timeouts == 3) disk_.cancel = true;
    return false;
  }
  absl::Status Wait(uint32_t slot) override {
    EXPECT_FALSE(disk_.is_stopped) << "waits for ever";
    return queue_->Wait(slot);
  }
  std::string description() const override { return "stopped"; }

 private:
  const std::unique_ptr<ReadQueue> queue_;
  Disk& disk_;
};

class CancelledStreamTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<StreamSource>> Open(double share) {
    return NewStreamSourceOver(
        [&](uint32_t num_slots, absl::Span<uint8_t> probe)
            -> absl::StatusOr<std::unique_ptr<ReadQueue>> {
          auto queue = OpenReadQueue(
              model_.checkpoint(),
              {.method = IoMethod::kBuffered, .num_slots = num_slots}, probe);
          if (!queue.ok()) return queue.status();
          return std::make_unique<StoppedReadQueue>(*std::move(queue), disk_);
        },
        model_.checkpoint(), model_.PlanFor(share), kSmallRing, account_,
        NoProgress, &disk_.cancel);
  }
  void Stop() {
    disk_.is_stopped = true;
    disk_.num_timeouts = 0;
  }
  void GoOn() {
    disk_.is_stopped = false;
    disk_.cancel = false;
  }

  const StreamedModel model_;
  StoppedReadQueue::Disk disk_;
  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
};

TEST_F(CancelledStreamTest, WaitingEndsAndGoesOnLaterWithoutReadingTwice) {
  ASSERT_OK_AND_ASSIGN(const auto source, Open(0));
  ASSERT_THAT(TakePass(model_, *source), IsOk());
  const uint64_t before = source->streamed_bytes();
  ASSERT_THAT(TakePass(model_, *source), IsOk());
  const uint64_t pass_bytes = source->streamed_bytes() - before;
  int num_cancelled = 0;
  for (const WeightStep& step : model_.steps()) {
    for (const TensorId tensor : step.tensors) {
      const uint64_t num_rows =
          model_.checkpoint().tensors()[tensor].num_rows();
      for (uint64_t row = 0; row < num_rows; ++row) {
        Stop();
        const absl::Status status =
            TakeRows(model_, *source, tensor, row, row + 1);
        GoOn();
        if (status.ok()) continue;  // resident, or there before
        ++num_cancelled;
        ASSERT_THAT(status, Fails(absl::StatusCode::kCancelled, ""));
        ASSERT_THAT(TakeRows(model_, *source, tensor, row, row + 1), IsOk());
      }
    }
  }
  EXPECT_GT(num_cancelled, 50);
  ASSERT_THAT(TakePass(model_, *source), IsOk());
  EXPECT_EQ(source->streamed_bytes(), before + 3 * pass_bytes);
}

TEST_F(CancelledStreamTest, JumpsAndLookupsCanBeCancelledToo) {
  ASSERT_OK_AND_ASSIGN(const auto source, Open(0));
  const TensorId embedding = model_.Find("embedding");
  for (int i = 0; i < 20; ++i) {
    Stop();
    EXPECT_THAT(source->Acquire(embedding, i, 1),
                Fails(absl::StatusCode::kCancelled, ""));
    disk_.cancel = false;
    disk_.num_timeouts = 0;
    EXPECT_THAT(source->Acquire(model_.Find("head"), 3 * i, 50),
                Fails(absl::StatusCode::kCancelled, ""));
    GoOn();
    ASSERT_THAT(TakeRows(model_, *source, embedding, i + 7, i + 8), IsOk());
    if (i % 3 == 0) {
      ASSERT_THAT(TakePass(model_, *source), IsOk());
    }
  }
}

TEST_F(CancelledStreamTest, LoadingEndsWhileItWaits) {
  disk_.cancel = true;
  disk_.is_late = true;
  EXPECT_THAT(Open(0.5), Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(account_.used_bytes(), 0u);
}

TEST_F(CancelledStreamTest, WithoutAFlagItWaits) {
  ASSERT_OK_AND_ASSIGN(const auto source, Open(0));
  disk_.cancel = true;
  source->SetCancel(nullptr);
  EXPECT_THAT(TakePass(model_, *source), IsOk());
}

TEST(NewStreamSourceTest, SaysHowItReads) {
  const StreamedModel model;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewStreamSource(model.checkpoint(), model.PlanFor(0),
                      {.ring = kSmallRing, .io_method = IoMethod::kBuffered},
                      account, NoProgress));
  EXPECT_EQ(source->io_description(),
            "2 reading threads, buffered, dropped behind, 5 x 12.0 KiB");
}

}  // namespace
}  // namespace lowmem
