// SPDX-License-Identifier: Apache-2.0
// Streaming gives the bytes of the file, whatever the budget, the method and
// the order of use.
#include "storage/stream_source.h"

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "storage/stream_order.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using testing::IsOk;
using testing::kSmallRing;
using testing::NoProgress;
using testing::StreamedModel;
using testing::TakePass;
using testing::TakeRows;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class StreamSourceTest : public ::testing::TestWithParam<IoMethod> {
 protected:
  // nullptr, and the test to be skipped, where the method does not work.
  std::unique_ptr<StreamSource> Open(const StreamedModel& model, double share,
                                     StreamRingShape ring = kSmallRing) {
    auto source = NewStreamSource(
        model.checkpoint(), model.PlanFor(share, ring),
        {.ring = ring, .io_method = GetParam()}, account_, NoProgress);
    if (absl::IsUnimplemented(source.status())) return nullptr;
    EXPECT_THAT(source.status(), IsOk());
    return source.ok() ? *std::move(source) : nullptr;
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
};

#define OPEN_OR_SKIP(source, ...)                             \
  const auto source = Open(__VA_ARGS__);                      \
  if (source == nullptr) {                                    \
    if (HasFailure()) return;                                 \
    GTEST_SKIP() << "this way of reading does not work here"; \
  }

TEST_P(StreamSourceTest, GivesTheBytesOfTheFileWithAnyRing) {
  const StreamedModel model;
  const StreamRingShape kRings[] = {{2, 40960 + 4096}, {3, 6 * 4096},
                                    {4, 5 * 4096},     {12, 4096},
                                    {64, 4096},        {16, 1 << 18}};
  for (const StreamRingShape& ring : kRings) {
    SCOPED_TRACE(absl::StrCat(ring.num_buffers, " x ", ring.buffer_bytes));
    for (const double share : {0.0, 0.37}) {
      OPEN_OR_SKIP(source, model, share, ring);
      for (int pass = 0; pass < 4; ++pass) {
        ASSERT_THAT(TakePass(model, *source), IsOk());
      }
    }
  }
}

TEST_P(StreamSourceTest, AHeadThatIsNotUsedIsNotRead) {
  const StreamedModel model;
  const std::vector<WeightStep>& steps = model.steps();
  for (const double share : {0.0, 0.6}) {
    const ResidencyPlan plan = model.PlanFor(share);
    uint64_t layer_bytes = 0;
    for (const StreamRange& range : StreamedRanges(model.checkpoint(), plan)) {
      if (range.tensor == model.Find("head")) continue;
      layer_bytes += (range.num_bytes + 4095) / 4096 * 4096;
    }
    OPEN_OR_SKIP(source, model, share);
    // As the transformer calls for a chunk of the prompt.
    const auto take_layers = [&] {
      source->Prefetch(steps[0]);
      for (size_t i = 0; i < 2; ++i) {
        source->Prefetch(i == 0 ? steps[1] : steps[0]);
        for (const TensorId tensor : steps[i].tensors) {
          ASSERT_THAT(TakeRows(model, *source, tensor, 0,
                               model.checkpoint().tensors()[tensor].num_rows()),
                      IsOk());
        }
      }
    };
    take_layers();
    const uint64_t before = source->streamed_bytes();
    for (int i = 0; i < 4; ++i) take_layers();
    EXPECT_EQ(source->streamed_bytes() - before, 4 * layer_bytes);
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(TakePass(model, *source), IsOk());
    }
  }
}

TEST_P(StreamSourceTest, WalkingTheHeadAgainThrowsAwayAtMostTheRing) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.0);
  const WeightStep& head = model.steps().back();
  const TensorInfo& info = model.checkpoint().tensors()[head.tensors[0]];
  const uint64_t walk_bytes = info.num_rows() * info.row_bytes() + 2 * 4096;
  const uint64_t ring_bytes = kSmallRing.num_buffers * kSmallRing.buffer_bytes;
  ASSERT_THAT(TakePass(model, *source), IsOk());
  const uint64_t before = source->streamed_bytes();
  ASSERT_THAT(TakePass(model, *source), IsOk());
  const uint64_t pass_bytes = source->streamed_bytes() - before;
  // As for the logits of every token: tiles of them, each over the whole head.
  constexpr uint64_t kNumTiles = 10;
  for (uint64_t i = 0; i < kNumTiles; ++i) {
    ASSERT_THAT(TakeRows(model, *source, head.tensors[0], 0, info.num_rows()),
                IsOk());
  }
  ASSERT_THAT(TakePass(model, *source), IsOk());
  const uint64_t got_bytes = source->streamed_bytes() - before - 2 * pass_bytes;
  EXPECT_GE(got_bytes, kNumTiles * info.num_rows() * info.row_bytes());
  EXPECT_LE(got_bytes, kNumTiles * (walk_bytes + ring_bytes) + ring_bytes);
}

TEST_P(StreamSourceTest, APassReadsWhatThePlanSaysAndTheBlocksAtItsEnds) {
  const StreamedModel model;
  for (const double share : {0.0, 0.4, 0.8}) {
    const ResidencyPlan plan = model.PlanFor(share);
    OPEN_OR_SKIP(source, model, share);
    ASSERT_THAT(TakePass(model, *source), IsOk());
    const uint64_t before = source->streamed_bytes();
    for (int pass = 0; pass < 5; ++pass) {
      ASSERT_THAT(TakePass(model, *source), IsOk());
    }
    const uint64_t pass_bytes = (source->streamed_bytes() - before) / 5;
    const uint64_t num_ranges = StreamedRanges(model.checkpoint(), plan).size();
    EXPECT_GE(pass_bytes, plan.streamed_bytes_per_pass);
    EXPECT_LE(pass_bytes, plan.streamed_bytes_per_pass + num_ranges * 2 * 4096);
  }
}

TEST_P(StreamSourceTest, ChargesWhatThePlanSays) {
  const StreamedModel model;
  for (const double share : {0.0, 0.33, 0.9}) {
    const ResidencyPlan plan = model.PlanFor(share);
    MemoryAccount limited(
        "weights", plan.block_bytes + plan.ring_bytes + 2 * 4096, nullptr);
    auto source = NewStreamSource(model.checkpoint(), plan,
                                  {.ring = kSmallRing, .io_method = GetParam()},
                                  limited, NoProgress);
    if (absl::IsUnimplemented(source.status())) {
      GTEST_SKIP() << "this way of reading does not work here";
    }
    ASSERT_THAT(source.status(), IsOk());
    EXPECT_EQ((*source)->resident_weight_bytes(), plan.resident_bytes);
    EXPECT_GE(limited.used_bytes(), plan.block_bytes + plan.ring_bytes);
    const uint64_t used_bytes = limited.used_bytes();
    ASSERT_THAT(TakePass(model, **source), IsOk());
    EXPECT_EQ(limited.used_bytes(), used_bytes);
  }
}

TEST_P(StreamSourceTest, AFileThatBecameShorterIsUnavailable) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.1);
  ASSERT_THAT(TakePass(model, *source), IsOk());
  ASSERT_THAT(TakeRows(model, *source, model.Find("layer0.up"), 0, 20), IsOk());
  fs::resize_file(model.path(), 4096);
  // Without a look at the file: what was read ahead is right, then reads fail.
  absl::Status status = absl::OkStatus();
  for (int pass = 0; pass < 2 && status.ok(); ++pass) {
    for (const WeightStep& step : model.steps()) {
      for (const TensorId tensor : step.tensors) {
        const uint64_t num_rows =
            model.checkpoint().tensors()[tensor].num_rows();
        for (uint64_t row = 0; row < num_rows && status.ok();) {
          auto lease = source->Acquire(tensor, row, num_rows - row);
          status = lease.status();
          if (lease.ok()) row += lease->num_rows();
        }
      }
    }
  }
  EXPECT_THAT(status, Fails(kUnavailable,
                            "model.safetensors: the file became "
                            "shorter"));
  source->Prefetch(model.steps()[0]);
  EXPECT_THAT(source->Acquire(model.Find("layer0.up"), 63, 1),
              Fails(kUnavailable, "changed while it was in use"));
}

TEST_P(StreamSourceTest, LeavesNoPageCacheBehind) {
  // Beside the build: the system's temporary files may be memory.
  const StreamedModel model(LOWMEM_BINARY_DIR);
  sync();  // dirty pages cannot be dropped
  const RandomAccessFile& file = *model.checkpoint().files()[0];
  file.DropCache(0, file.size_bytes());
  if (file.CachedBytes().value_or(1) != 0) {
    GTEST_SKIP() << "the page cache cannot be dropped or seen here";
  }
  auto source = Open(model, 0.4);
  if (source == nullptr)
    GTEST_SKIP() << "this way of reading does not work here";
  for (const WeightStep& step : model.steps()) {
    for (const TensorId tensor : step.tensors) {
      const uint64_t num_rows = model.checkpoint().tensors()[tensor].num_rows();
      for (uint64_t row = 0; row < num_rows;) {
        ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                             source->Acquire(tensor, row, num_rows - row));
        row += lease.num_rows();
      }
    }
  }
  source.reset();  // and what is read ahead with it
  EXPECT_EQ(file.CachedBytes().value_or(0), 0u);
}

// Counts the calls that hand reads over, and passes all on.
class CountingReadQueue final : public ReadQueue {
 public:
  struct Counts {
    int num_starts = 0;
    int num_calls = 0;  // of Submit that have something to hand over
  };
  CountingReadQueue(std::unique_ptr<ReadQueue> queue, Counts& counts)
      : queue_(std::move(queue)), counts_(counts) {}
  void Start(uint32_t slot, const BlockRead& read) override {
    ++counts_.num_starts;
    has_started_ = true;
    queue_->Start(slot, read);
  }
  void Submit() override {
    counts_.num_calls += std::exchange(has_started_, false);
    queue_->Submit();
  }
  bool IsDone(uint32_t slot) override { return queue_->IsDone(slot); }
  bool WaitAtMost(uint32_t slot, int timeout_ms) override {
    EXPECT_FALSE(has_started_) << "waits before reads are handed over";
    return queue_->WaitAtMost(slot, timeout_ms);
  }
  absl::Status Wait(uint32_t slot) override { return queue_->Wait(slot); }
  std::string description() const override { return "counting"; }

 private:
  const std::unique_ptr<ReadQueue> queue_;
  Counts& counts_;
  bool has_started_ = false;
};

TEST(StreamSourceCallTest, ReadsAreHandedOverByTheQuarterOfTheRing) {
  const StreamedModel model;
  constexpr StreamRingShape kRing = {.num_buffers = 16,
                                     .buffer_bytes = 3 * 4096};
  CountingReadQueue::Counts counts;
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewStreamSourceOver(
          [&](uint32_t num_slots, absl::Span<uint8_t> probe)
              -> absl::StatusOr<std::unique_ptr<ReadQueue>> {
            auto queue = OpenReadQueue(
                model.checkpoint(),
                {.method = IoMethod::kBuffered, .num_slots = num_slots}, probe);
            if (!queue.ok()) return queue.status();
            return std::make_unique<CountingReadQueue>(*std::move(queue),
                                                       counts);
          },
          model.checkpoint(), model.PlanFor(0.0, kRing), kRing, account,
          NoProgress));
  counts = {};
  for (int pass = 0; pass < 4; ++pass) {
    ASSERT_THAT(TakePass(model, *source), IsOk());
  }
  EXPECT_GT(counts.num_starts, 200);
  EXPECT_GE(counts.num_starts, 3 * counts.num_calls);
}

INSTANTIATE_TEST_SUITE_P(Methods, StreamSourceTest,
                         ::testing::Values(IoMethod::kUring,
                                           IoMethod::kDirectPread,
                                           IoMethod::kBuffered),
                         [](const auto& param) -> std::string {
                           switch (param.param) {
                             case IoMethod::kUring:
                               return "Uring";
                             case IoMethod::kDirectPread:
                               return "DirectPread";
                             default:
                               return "Buffered";
                           }
                         });

TEST(MayTryBufferedTest, OnlyWhereMemoryIsNotShort) {
  ResidencyPlan plan;
  plan.ring_bytes = 4 << 20;
  EXPECT_FALSE(MayTryBuffered(plan));
  plan.block_bytes = 64 << 20;
  EXPECT_TRUE(MayTryBuffered(plan));
}

}  // namespace
}  // namespace lowmem
