// SPDX-License-Identifier: Apache-2.0
#include "storage/mapped_plan.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/mapped_window.h"
#include "storage/stream_order.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::IsOk;
using testing::StreamedModel;

uint64_t ResidentRows(const ResidencyPlan& plan) {
  uint64_t num_rows = 0;
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& tensor : step) num_rows += tensor.resident_rows;
  }
  return num_rows;
}

TEST(MappedFootprintTest, CountsPagesThatHoldResidentRows) {
  const StreamedModel model;
  // Nothing but the two norms of 577 bytes, apart from each other.
  const ResidencyPlan plan = model.PlanFor(0.0);
  const MappedFootprint footprint =
      FootprintOfMapped(model.checkpoint(), plan, 1 << 20);
  EXPECT_GE(footprint.resident_bytes, 2 * PageBytes());
  EXPECT_LE(footprint.resident_bytes, 4 * PageBytes());
  EXPECT_EQ(footprint.window_bytes, 1u << 20);
  EXPECT_EQ(footprint.lookup_bytes, MaxPageBytesOfRow(40961, PageBytes()));
  EXPECT_GT(footprint.page_table_bytes, 0u);
  EXPECT_EQ(footprint.total_bytes(),
            footprint.mapped_bytes() + footprint.page_table_bytes);
}

TEST(MappedFootprintTest, WithoutStreamsThereIsNoWindow) {
  const StreamedModel model;
  const MappedFootprint footprint =
      FootprintOfMapped(model.checkpoint(), model.PlanFor(1.04), 1 << 20);
  EXPECT_EQ(footprint.window_bytes, 0u);
  EXPECT_EQ(footprint.lookup_bytes, 0u);
  EXPECT_GE(footprint.resident_bytes, model.checkpoint().total_tensor_bytes());
}

// A decoder of 27 MB whose file is a hole: sizes and places are all that
// matters.
class SparseModel {
 public:
  SparseModel() {
    std::string header = "{";
    uint64_t ofs = 0;
    const auto add = [&](const std::string& name, const std::string& dims,
                         uint64_t num_bytes) {
      absl::StrAppend(&header, ofs == 0 ? "" : ",", "\"", name,
                      R"(":{"dtype":"U8","shape":[)", dims,
                      R"(],"data_offsets":[)", ofs, ",", ofs + num_bytes, "]}");
      ofs += num_bytes;
    };
    add("head", "8192,1153", 8192 * 1153);
    for (int i = 0; i < 6; ++i) {
      add(absl::StrCat(i, ".down"), "1153,1300", 1153 * 1300);
      add(absl::StrCat(i, ".norm"), "1153", 1153);
      add(absl::StrCat(i, ".up"), "1300,1153", 1300 * 1153);
    }
    const std::string path = folder_.Write(
        "model.safetensors", testing::SafetensorsBytes(header + "}", ""));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) + ofs);
    auto opened = Checkpoint::Open(path);
    if (!opened.ok()) return;
    checkpoint_ = *std::move(opened);
    std::vector<WeightStep> steps;
    for (int i = 0; i < 6; ++i) {
      WeightStep& step = steps.emplace_back();
      for (const char* name : {".norm", ".up", ".down"}) {
        step.tensors.push_back(*checkpoint_->Find(absl::StrCat(i, name)));
      }
    }
    steps.push_back({{*checkpoint_->Find("head")}});
    request_ = DescribeSteps(*checkpoint_, steps, {});
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ResidencyRequest& request() const { return request_; }

 private:
  const testing::TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
  ResidencyRequest request_;
};

TEST(MappedPlanTest, FitsEveryBudgetAndUsesItToWithinThePagesAtTheEnds) {
  const SparseModel model;
  const MappedBounds bounds =
      BoundsOfMapped(model.checkpoint(), model.request());
  ASSERT_LT(bounds.least_bytes + (20 << 20), bounds.most_bytes);
  uint64_t last_rows = 0;
  for (uint64_t available = bounds.least_bytes; available < bounds.most_bytes;
       available += 1'000'003) {
    SCOPED_TRACE(available);
    ASSERT_OK_AND_ASSIGN(
        const MappedPlan plan,
        PlanMapped(model.checkpoint(), model.request(), available));
    EXPECT_LE(plan.footprint.total_bytes(), available);
    // A row and a page for each of the 14 matrices' bands.
    EXPECT_GE(plan.footprint.total_bytes() + 14 * 2 * PageBytes(), available);
    EXPECT_GE(ResidentRows(plan.residency), last_rows);
    last_rows = ResidentRows(plan.residency);
  }
  ASSERT_OK_AND_ASSIGN(
      const MappedPlan all,
      PlanMapped(model.checkpoint(), model.request(), bounds.most_bytes));
  EXPECT_EQ(all.residency.streamed_bytes_per_pass, 0u);
  EXPECT_EQ(all.footprint.total_bytes(), bounds.most_bytes);
}

TEST(MappedPlanTest, TheLeastKeepsNormsAlone) {
  const SparseModel model;
  const MappedBounds bounds =
      BoundsOfMapped(model.checkpoint(), model.request());
  ASSERT_OK_AND_ASSIGN(
      const MappedPlan plan,
      PlanMapped(model.checkpoint(), model.request(), bounds.least_bytes));
  EXPECT_EQ(plan.residency.resident_bytes, 6u * 1153);
  EXPECT_EQ(plan.footprint.total_bytes(), bounds.least_bytes);
}

TEST(MappedPlanTest, LessThanTheLeastIsRefused) {
  const SparseModel large;
  const StreamedModel small;  // all of it is less than a window
  const struct {
    const Checkpoint& checkpoint;
    ResidencyRequest request;
  } kCases[] = {{large.checkpoint(), large.request()},
                {small.checkpoint(),
                 DescribeSteps(small.checkpoint(), small.steps(), {})}};
  for (const auto& c : kCases) {
    const MappedBounds bounds = BoundsOfMapped(c.checkpoint, c.request);
    EXPECT_THAT(
        PlanMapped(c.checkpoint, c.request, bounds.least_bytes).status(),
        IsOk());
    for (const uint64_t available : {uint64_t{0}, bounds.least_bytes - 1}) {
      EXPECT_THAT(
          PlanMapped(c.checkpoint, c.request, available).status(),
          Fails(absl::StatusCode::kResourceExhausted, "mmap: expected"));
    }
  }
}

TEST(MappedPlanTest, TheWindowGrowsWithTheBudgetUpToTheUsualOne) {
  const SparseModel model;
  const MappedBounds bounds =
      BoundsOfMapped(model.checkpoint(), model.request());
  const struct {
    uint64_t more_bytes, window_bytes;
  } kCases[] = {{0, 1 << 20},
                {80 << 10, (1 << 20) + (40 << 10)},
                {14 << 20, 8 << 20},
                {18 << 20, 8 << 20}};
  for (const auto& c : kCases) {
    ASSERT_OK_AND_ASSIGN(const MappedPlan plan,
                         PlanMapped(model.checkpoint(), model.request(),
                                    bounds.least_bytes + c.more_bytes));
    EXPECT_EQ(plan.window_bytes, c.window_bytes) << c.more_bytes;
  }
}

TEST(MappedWindowTest, TheSmallestHoldsARowAndAPieceAtEachEnd) {
  for (const uint64_t row_bytes : {1, 4096, 40961, 3 << 20}) {
    const uint64_t window = SmallestWindowBytes(row_bytes, 4096);
    EXPECT_GE(window, MaxPageBytesOfRow(row_bytes, 4096) +
                          2 * PieceBytesOf(window, 4096))
        << row_bytes;
    EXPECT_EQ(window % 4096, 0u);
  }
}

}  // namespace
}  // namespace lowmem
