// SPDX-License-Identifier: Apache-2.0
// Streaming from files that fail, and what is refused before the first read.
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

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// Fails its n-th Wait, after the read it stands for.
class FaultyReadQueue final : public ReadQueue {
 public:
  FaultyReadQueue(std::unique_ptr<ReadQueue> queue, int failing_wait)
      : queue_(std::move(queue)), failing_wait_(failing_wait) {}
  void Start(uint32_t slot, const BlockRead& read) override {
    queue_->Start(slot, read);
  }
  bool IsDone(uint32_t slot) override { return queue_->IsDone(slot); }
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
