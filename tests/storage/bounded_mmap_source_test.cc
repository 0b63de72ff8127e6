// SPDX-License-Identifier: Apache-2.0
// A bounded mapping gives the bytes of the file, whatever the budget, the
// window and the order of use.
#include "storage/bounded_mmap_source.h"

#include <filesystem>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/mapped_plan.h"
#include "storage/mapped_window.h"
#include "storage/stream_order.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using testing::IsOk;
using testing::NoProgress;
using testing::StreamedModel;
using testing::TakePass;
using testing::TakeRows;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

// The smallest for StreamedModel, whose pieces are two pages: rows meet every
// kind of border.
uint64_t SmallWindow() { return SmallestWindowBytes(40961, PageBytes()); }

// What a pass over the tensors for which `is_used` holds fetches: pages that
// are not resident anyway.
template <typename IsUsed>
uint64_t PassBytes(const StreamedModel& model, const ResidencyPlan& plan,
                   IsUsed is_used) {
  const PageSet resident = ResidentPages(model.checkpoint(), plan);
  uint64_t num_bytes = 0;
  for (const StreamRange& range : StreamedRanges(model.checkpoint(), plan)) {
    if (!is_used(range.tensor)) continue;
    const PageRun run = resident.WithoutEnds(
        PagesOfRows(range, range.row_begin, range.row_end, PageBytes()),
        PageBytes());
    if (run.begin < run.end) num_bytes += run.num_bytes();
  }
  return num_bytes;
}

class BoundedMmapSourceTest : public ::testing::Test {
 protected:
  std::unique_ptr<BoundedMmapSource> Open(const StreamedModel& model,
                                          double share,
                                          uint64_t window_bytes = 0) {
    auto source = NewBoundedMmapSource(
        model.checkpoint(), model.PlanFor(share),
        window_bytes == 0 ? SmallWindow() : window_bytes, account_, NoProgress);
    EXPECT_THAT(source.status(), IsOk());
    return source.ok() ? *std::move(source) : nullptr;
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
};

TEST_F(BoundedMmapSourceTest, GivesTheBytesOfTheFileWithAnyWindow) {
  const StreamedModel model;
  for (const uint64_t more_pages : {1, 7, 8, 33, 100, 1000}) {
    SCOPED_TRACE(more_pages);
    const uint64_t window = SmallWindow() + more_pages * PageBytes();
    for (const double share : {0.0, 0.37}) {
      const auto source = Open(model, share, window);
      for (int pass = 0; pass < 4; ++pass) {
        ASSERT_THAT(TakePass(model, *source), IsOk());
      }
    }
  }
}

TEST_F(BoundedMmapSourceTest, AtMostAPartOfTheWindowIsLeasedAtOnce) {
  const StreamedModel model;
  const auto source = Open(model, 0.0);
  ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                       source->Acquire(model.Find("layer0.up"), 0, 64));
  EXPECT_GE(lease.num_rows(), 1u);
  EXPECT_LE(lease.num_rows() * 4096, SmallWindow() / 4);
}

TEST_F(BoundedMmapSourceTest, AHeadThatIsNotUsedIsNotFetched) {
  const StreamedModel model;
  const std::vector<WeightStep>& steps = model.steps();
  for (const double share : {0.0, 0.6}) {
    const auto source = Open(model, share);
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
    const uint64_t layer_bytes = PassBytes(
        model, model.PlanFor(share),
        [&](TensorId tensor) { return tensor != model.Find("head"); });
    take_layers();
    const uint64_t before = source->streamed_bytes();
    for (int i = 0; i < 4; ++i) take_layers();
    EXPECT_EQ(source->streamed_bytes() - before, 4 * layer_bytes);
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(TakePass(model, *source), IsOk());
    }
  }
}

TEST_F(BoundedMmapSourceTest, APassFetchesWhatThePlanSaysAndThePagesAtItsEnds) {
  const StreamedModel model;
  for (const double share : {0.0, 0.4, 0.8}) {
    // The last window holds all that streams; it flows through it all the same.
    for (const uint64_t window : {SmallWindow(), uint64_t{8} << 20}) {
      const ResidencyPlan plan = model.PlanFor(share);
      const auto source = Open(model, share, window);
      ASSERT_THAT(TakePass(model, *source), IsOk());
      const uint64_t before = source->streamed_bytes();
      for (int pass = 0; pass < 5; ++pass) {
        ASSERT_THAT(TakePass(model, *source), IsOk());
      }
      const uint64_t pass_bytes = (source->streamed_bytes() - before) / 5;
      EXPECT_EQ(pass_bytes,
                PassBytes(model, plan, [](TensorId) { return true; }));
      const uint64_t end_bytes =
          StreamedRanges(model.checkpoint(), plan).size() * 2 * PageBytes();
      EXPECT_LE(pass_bytes, plan.streamed_bytes_per_pass + end_bytes);
    }
  }
}

TEST_F(BoundedMmapSourceTest, LeasesPointIntoOneMappingOfTheFile) {
  const StreamedModel model;
  const auto source = Open(model, 0.5);
  std::vector<const uint8_t*> begins;
  for (const char* name : {"embedding", "head", "layer0.norm", "layer1.up"}) {
    const TensorInfo& info = model.checkpoint().tensors()[model.Find(name)];
    for (const uint64_t row : {uint64_t{0}, info.num_rows() - 1}) {
      ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                           source->Acquire(model.Find(name), row, 1));
      begins.push_back(lease.data() - info.file_ofs - row * info.row_bytes());
    }
  }
  EXPECT_THAT(begins, ::testing::Each(begins[0]));
}

TEST_F(BoundedMmapSourceTest, ATruncatedFileIsUnavailable) {
  for (const double share : {0.0, 0.5}) {
    const StreamedModel model;
    const auto source = Open(model, share);
    ASSERT_THAT(TakePass(model, *source), IsOk());
    ASSERT_THAT(TakeRows(model, *source, model.Find("layer0.up"), 0, 20),
                IsOk());
    fs::resize_file(model.path(), 4096);
    // Without a look at the file, and none at pages that are lost: what is to
    // be fetched next cannot be.
    absl::Status status = absl::OkStatus();
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
    EXPECT_THAT(status, Fails(kUnavailable,
                              "model.safetensors: the file changed while it "
                              "was in use"));
    source->Prefetch(model.steps()[0]);
    EXPECT_THAT(source->Acquire(model.Find("layer0.norm"), 0, 1),
                Fails(kUnavailable, "changed while it was in use"));
  }
}

TEST_F(BoundedMmapSourceTest, ChargesItsFootprint) {
  const StreamedModel model;
  for (const double share : {0.0, 0.33, 1.04}) {
    const ResidencyPlan plan = model.PlanFor(share);
    const uint64_t num_bytes =
        FootprintOfMapped(model.checkpoint(), plan, SmallWindow())
            .total_bytes();
    {
      const auto source = Open(model, share);
      EXPECT_EQ(source->resident_weight_bytes(), plan.resident_bytes);
      EXPECT_EQ(account_.used_bytes(), num_bytes);
    }
    MemoryAccount small("small", num_bytes - 1, nullptr);
    EXPECT_THAT(NewBoundedMmapSource(model.checkpoint(), plan, SmallWindow(),
                                     small, NoProgress)
                    .status(),
                Fails(absl::StatusCode::kResourceExhausted, "small"));
    EXPECT_EQ(small.used_bytes(), 0u);
  }
}

TEST_F(BoundedMmapSourceTest, LoadingTellsHowFarItIsAndMayBeEnded) {
  const StreamedModel model;
  const ResidencyPlan plan = model.PlanFor(0.5);
  uint64_t last_bytes = 0;
  uint64_t all_bytes = 0;
  const auto source =
      NewBoundedMmapSource(model.checkpoint(), plan, SmallWindow(), account_,
                           [&](uint64_t done_bytes, uint64_t total_bytes) {
                             EXPECT_GT(done_bytes, last_bytes);
                             last_bytes = done_bytes;
                             all_bytes = total_bytes;
                             return absl::OkStatus();
                           });
  ASSERT_THAT(source.status(), IsOk());
  EXPECT_EQ(last_bytes, all_bytes);
  EXPECT_EQ(all_bytes, ResidentPages(model.checkpoint(), plan).num_bytes());
  EXPECT_THAT(
      NewBoundedMmapSource(
          model.checkpoint(), plan, SmallWindow(), account_,
          [](uint64_t, uint64_t) { return absl::CancelledError("enough"); })
          .status(),
      Fails(absl::StatusCode::kCancelled, "enough"));
}

TEST_F(BoundedMmapSourceTest, WhatCannotWorkIsRefused) {
  const StreamedModel model;
  EXPECT_THAT(NewBoundedMmapSource(model.checkpoint(), model.PlanFor(0.1),
                                   SmallWindow() - 1, account_, NoProgress)
                  .status(),
              Fails(absl::StatusCode::kInvalidArgument, "largest row"));
  ResidencyPlan plan = model.PlanFor(0.1);
  plan.steps[0].back().num_rows += 1;
  EXPECT_THAT(NewBoundedMmapSource(model.checkpoint(), plan, SmallWindow(),
                                   account_, NoProgress)
                  .status(),
              Fails(absl::StatusCode::kInvalidArgument, "another checkpoint"));
  EXPECT_EQ(account_.used_bytes(), 0u);
}

TEST_F(BoundedMmapSourceTest, GivesTheBytesOfAFileInMemory) {
  const testing::SmallDisk disk(8 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a tmpfs is not allowed";
  const StreamedModel model(disk.path());
  for (const double share : {0.0, 0.5}) {
    const auto source = Open(model, share);
    for (int pass = 0; pass < 2; ++pass) {
      ASSERT_THAT(TakePass(model, *source), IsOk());
    }
  }
}

}  // namespace
}  // namespace lowmem
