// SPDX-License-Identifier: Apache-2.0
#include "storage/planned_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::StreamedModel;

TEST(PlannedRowsTest, FindsTheBandOfEveryRowAndItsRange) {
  const StreamedModel model;
  const ResidencyPlan plan = model.PlanFor(0.4);
  const std::vector<StreamRange> ranges =
      StreamedRanges(model.checkpoint(), plan);
  ASSERT_OK_AND_ASSIGN(const PlannedRows rows,
                       PlannedRows::Create(model.checkpoint(), plan));
  size_t num_streamed = 0;
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& tensor : step) {
      for (uint64_t i = 0; i < tensor.num_rows; ++i) {
        const uint64_t row = tensor.row_begin + i;
        ASSERT_OK_AND_ASSIGN(const RowBand band, rows.Find(tensor.tensor, row));
        EXPECT_EQ(band.row_begin, tensor.row_begin);
        EXPECT_EQ(band.row_end, tensor.row_begin + tensor.num_rows);
        EXPECT_EQ(row < band.resident_end, i < tensor.resident_rows);
        if (row < band.resident_end) continue;
        ASSERT_TRUE(band.range_idx);
        EXPECT_EQ(ranges[*band.range_idx].tensor, tensor.tensor);
        EXPECT_LE(ranges[*band.range_idx].row_begin, row);
        EXPECT_GT(ranges[*band.range_idx].row_end, row);
        ++num_streamed;
      }
    }
  }
  EXPECT_GT(num_streamed, 100u);
  const TensorId embedding = model.Find("embedding");
  ASSERT_OK_AND_ASSIGN(const RowBand looked_up, rows.Find(embedding, 5));
  EXPECT_FALSE(looked_up.range_idx);
  EXPECT_THAT(rows.Find(embedding, 97),
              Fails(absl::StatusCode::kInternal, "not in the residency plan"));
  EXPECT_THAT(rows.Find(model.Find("first"), 0),
              Fails(absl::StatusCode::kInternal, "not in the residency plan"));
}

TEST(PlannedRowsTest, AStepThatIsPassedOverIsLeftOut) {
  const StreamedModel model;  // steps 0 and 1 are layers, 2 is the head
  const ResidencyPlan plan = model.PlanFor(0.0);
  const std::vector<StreamRange> ranges =
      StreamedRanges(model.checkpoint(), plan);
  ASSERT_OK_AND_ASSIGN(PlannedRows rows,
                       PlannedRows::Create(model.checkpoint(), plan));
  EXPECT_FALSE(rows.Announce({}));
  EXPECT_FALSE(rows.Announce(model.steps()[0]));  // where a pass begins
  auto next = rows.Announce(model.steps()[1]);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->from_idx, next->to_idx);
  EXPECT_FALSE(rows.Announce(model.steps()[1]));
  auto over_the_head = rows.Announce(model.steps()[0]);
  ASSERT_TRUE(over_the_head);
  EXPECT_EQ(ranges[over_the_head->from_idx].tensor, model.Find("head"));
  EXPECT_EQ(over_the_head->to_idx, 0u);
  EXPECT_FALSE(rows.Announce({{model.Find("embedding")}}));
}

TEST(PlannedRowsTest, APlanOfAnotherCheckpointIsRefused) {
  const StreamedModel model;
  for (int fault = 0; fault < 4; ++fault) {
    SCOPED_TRACE(fault);
    ResidencyPlan plan = model.PlanFor(0.4);
    TensorPlacement& tensor = plan.steps[0].back();
    if (fault == 0) tensor.tensor = 1000;
    if (fault == 1) tensor.num_rows += 1;
    if (fault == 2) tensor.resident_rows = tensor.num_rows + 1;
    if (fault == 3) tensor.row_bytes -= 1;
    EXPECT_THAT(
        PlannedRows::Create(model.checkpoint(), plan).status(),
        Fails(absl::StatusCode::kInvalidArgument, "another checkpoint"));
  }
}

}  // namespace
}  // namespace lowmem
