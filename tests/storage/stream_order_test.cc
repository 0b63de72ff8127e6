// SPDX-License-Identifier: Apache-2.0
#include "storage/stream_order.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "storage/block_file.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

using testing::StreamedModel;

TEST(DescribeStepsTest, CutsLargeMatricesIntoBandsThatCoverThem) {
  const StreamedModel model;
  for (const uint64_t band_bytes : {1, 1000, 50'000, 100'000, 1 << 30}) {
    SCOPED_TRACE(band_bytes);
    const ResidencyRequest request =
        DescribeSteps(model.checkpoint(), model.steps(), {}, band_bytes);
    ASSERT_EQ(request.steps.size(), model.steps().size());
    for (size_t s = 0; s < request.steps.size(); ++s) {
      size_t i = 0;
      for (const TensorId tensor : model.steps()[s].tensors) {
        const TensorInfo& info = model.checkpoint().tensors()[tensor];
        for (uint64_t row = 0; row < info.num_rows(); ++i) {
          ASSERT_LT(i, request.steps[s].size());
          const TensorUse& band = request.steps[s][i];
          EXPECT_EQ(band.tensor, tensor);
          EXPECT_EQ(band.row_begin, row);
          EXPECT_EQ(band.row_bytes, info.row_bytes());
          EXPECT_EQ(band.may_stream, info.shape.size() >= 2);
          ASSERT_GT(band.num_rows, 0u);
          EXPECT_TRUE(band.num_rows * band.row_bytes <= band_bytes ||
                      band.num_rows == 1);
          row += band.num_rows;
        }
      }
      EXPECT_EQ(i, request.steps[s].size());
    }
  }
}

TEST(DescribeStepsTest, AnEmbeddingThatIsTheHeadIsLeftToTheHead) {
  const StreamedModel model;
  const TensorId embedding = model.Find("embedding");
  const TensorId head = model.Find("head");
  EXPECT_EQ(DescribeSteps(model.checkpoint(), model.steps(), {embedding})
                .looked_up.size(),
            1u);
  EXPECT_EQ(
      DescribeSteps(model.checkpoint(), model.steps(), {head}).looked_up.size(),
      0u);
}

TEST(StreamRangesTest, TogetherAreEveryRowOnce) {
  const StreamedModel model;
  for (const double share : {0.0, 0.3, 0.7, 1.1}) {
    SCOPED_TRACE(share);
    const ResidencyPlan plan = model.PlanFor(share);
    std::vector<StreamRange> ranges = StreamedRanges(model.checkpoint(), plan);
    const std::vector<StreamRange> resident =
        ResidentRanges(model.checkpoint(), plan);
    EXPECT_TRUE(std::is_sorted(resident.begin(), resident.end(),
                               [](const StreamRange& a, const StreamRange& b) {
                                 return a.base_ofs + a.skip_bytes <
                                        b.base_ofs + b.skip_bytes;
                               }));
    ranges.insert(ranges.end(), resident.begin(), resident.end());
    std::vector<std::vector<int>> num_uses;
    for (const TensorInfo& info : model.checkpoint().tensors()) {
      num_uses.emplace_back(info.num_rows());
    }
    for (const StreamRange& range : ranges) {
      const TensorInfo& info = model.checkpoint().tensors()[range.tensor];
      EXPECT_EQ(range.base_ofs % BlockFile::kBlockBytes, 0u);
      EXPECT_LT(range.skip_bytes, BlockFile::kBlockBytes);
      EXPECT_EQ(range.base_ofs + range.RowPosition(range.row_begin),
                info.file_ofs + range.row_begin * info.row_bytes());
      EXPECT_EQ(range.num_bytes, range.RowPosition(range.row_end));
      for (uint64_t row = range.row_begin; row < range.row_end; ++row) {
        ++num_uses[range.tensor][row];
      }
    }
    for (const WeightStep& step : model.steps()) {
      for (const TensorId tensor : step.tensors) {
        for (const int num : num_uses[tensor]) EXPECT_EQ(num, 1);
      }
    }
  }
}

}  // namespace
}  // namespace lowmem
