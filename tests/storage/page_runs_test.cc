// SPDX-License-Identifier: Apache-2.0
#include "storage/page_runs.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace lowmem {
namespace {

constexpr uint64_t kPage = 4096;

StreamRange Rows(uint32_t file_idx, uint64_t file_ofs, uint64_t num_rows,
                 uint64_t row_bytes) {
  TensorInfo info;
  info.shape = {num_rows, row_bytes};
  info.dtype = DType::kU8;
  info.file_idx = file_idx;
  info.file_ofs = file_ofs;
  info.size_bytes = num_rows * row_bytes;
  return RangeOfRows(info, 0, 0, num_rows);
}

TEST(PageRunTest, HoldsEveryByteOfTheRows) {
  const StreamRange range = Rows(2, 5000, 10, 3000);
  const struct {
    uint64_t row_begin, row_end, begin, end;
  } kCases[] = {
      {0, 1, 4096, 8192},    // 5000 to 8000
      {1, 2, 4096, 12288},   // 8000 to 11000
      {0, 10, 4096, 36864},  // to 35000
      {9, 10, 28672, 36864}  // 32000 to 35000
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.row_begin);
    const PageRun run = PagesOfRows(range, c.row_begin, c.row_end, kPage);
    EXPECT_EQ(run.file_idx, 2u);
    EXPECT_EQ(run.begin, c.begin);
    EXPECT_EQ(run.end, c.end);
  }
}

TEST(PageRunTest, NoPlaceOfARowTakesMorePagesThanSaid) {
  for (const uint64_t row_bytes : {1, 2, 576, 4095, 4096, 4097, 8192, 8193}) {
    uint64_t most = 0;
    for (uint64_t ofs = 0; ofs < kPage; ++ofs) {
      const PageRun run = PagesOfRows(Rows(0, ofs, 1, row_bytes), 0, 1, kPage);
      most = std::max(most, run.num_bytes());
    }
    EXPECT_EQ(MaxPageBytesOfRow(row_bytes, kPage), most) << row_bytes;
  }
}

TEST(PageSetTest, CountsAPageThatTensorsShareOnce) {
  // Neighbours in one page, in adjoining pages, apart, and in another file.
  const std::vector<StreamRange> ranges = {
      Rows(0, 100, 1, 200), Rows(0, 300, 2, 100), Rows(0, 4000, 1, 200),
      Rows(0, 40960, 1, 4096), Rows(1, 40960, 1, 1)};
  const PageSet set(ranges, kPage);
  ASSERT_EQ(set.runs().size(), 3u);
  EXPECT_EQ(set.runs()[0].begin, 0u);
  EXPECT_EQ(set.runs()[0].end, 2 * kPage);
  EXPECT_EQ(set.runs()[1].begin, 10 * kPage);
  EXPECT_EQ(set.runs()[2].file_idx, 1u);
  EXPECT_EQ(set.num_bytes(), 4 * kPage);
}

TEST(PageSetTest, IntersectsWhatSharesAPage) {
  const PageSet set({{Rows(0, 2 * kPage, 1, kPage), Rows(1, 0, 1, 1)}}, kPage);
  EXPECT_FALSE(set.Intersects({0, 0, 2 * kPage}));
  EXPECT_TRUE(set.Intersects({0, 0, 3 * kPage}));
  EXPECT_TRUE(set.Intersects({0, 2 * kPage, 3 * kPage}));
  EXPECT_FALSE(set.Intersects({0, 3 * kPage, 9 * kPage}));
  EXPECT_TRUE(set.Intersects({1, 0, kPage}));
  EXPECT_FALSE(set.Intersects({1, kPage, 2 * kPage}));
  EXPECT_FALSE(set.Intersects({2, 0, kPage}));
  EXPECT_FALSE(PageSet().Intersects({0, 0, kPage}));
  EXPECT_EQ(set.FirstOverlap({0, 0, 9 * kPage}), &set.runs()[0]);
  EXPECT_EQ(set.FirstOverlap({1, 0, 9 * kPage}), &set.runs()[1]);
}

TEST(PageSetTest, CutsOffEndsThatAreInIt) {
  const PageSet set({{Rows(0, 2 * kPage, 1, kPage), Rows(0, 6 * kPage, 1, 1)}},
                    kPage);
  const struct {
    uint64_t begin, end, cut_begin, cut_end;
  } kCases[] = {{3, 6, 3, 6}, {2, 7, 3, 6}, {2, 3, 3, 3}, {0, 3, 0, 2}};
  for (const auto& c : kCases) {
    const PageRun run =
        set.WithoutEnds({0, c.begin * kPage, c.end * kPage}, kPage);
    EXPECT_EQ(run.begin, c.cut_begin * kPage);
    EXPECT_EQ(run.end, c.cut_end * kPage);
  }
}

TEST(PageSetTest, CountsAlignedUnitsOnce) {
  constexpr uint64_t kUnit = 4 * kPage;
  const PageSet set({{Rows(0, 0, 1, 1), Rows(0, 2 * kPage, 1, 1),
                      Rows(0, 3 * kPage, 6, kPage), Rows(0, 20 * kPage, 1, 1),
                      Rows(1, 20 * kPage, 1, 1)}},
                    kPage);
  // 0, 1 and 2; 5; and 5 of the other file.
  EXPECT_EQ(set.CountUnits(kUnit), 5u);
  EXPECT_EQ(PageSet().CountUnits(kUnit), 0u);
}

}  // namespace
}  // namespace lowmem
