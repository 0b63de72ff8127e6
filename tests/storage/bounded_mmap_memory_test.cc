// SPDX-License-Identifier: Apache-2.0
// What a bounded mapping takes of memory, looked at whenever rows are leased:
// pages in the page cache, pages in the process, page tables; and what it
// reads.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/memory_meter.h"
#include "storage/bounded_mmap_source.h"
#include "storage/mapped_plan.h"
#include "storage/mapped_window.h"
#include "storage/stream_order.h"
#include "tests/support/mapped_memory.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::IsOk;
using testing::MappedMemory;
using testing::MappedMemoryOf;
using testing::NoProgress;
using testing::StreamedModel;

uint64_t SmallWindow() { return SmallestWindowBytes(40961, PageBytes()); }

// Takes rows without reading the file otherwise, which would fill the cache.
class Watch {
 public:
  Watch(const StreamedModel& model, BoundedMmapSource& source)
      : model_(model), source_(source) {}

  // Zero where it cannot be told.
  uint64_t CachedBytes() const {
    return model_.checkpoint().files()[0]->CachedBytes().value_or(0);
  }

  void TakeRows(TensorId tensor, uint64_t row, uint64_t end) {
    const uint64_t row_bytes =
        model_.checkpoint().tensors()[tensor].row_bytes();
    while (row < end) {
      ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                           source_.Acquire(tensor, row, end - row));
      for (uint64_t i = 0; i < lease.num_rows() * row_bytes; ++i) {
        sum_ += lease.data()[i];
      }
      row += lease.num_rows();
      const MappedMemory now = MappedMemoryOf(model_.path());
      most_mapped_bytes = std::max(most_mapped_bytes, now.resident_bytes);
      most_mappings = std::max(most_mappings, now.num_mappings);
      most_cached_bytes = std::max(most_cached_bytes, CachedBytes());
      least_mapped_bytes = std::min(least_mapped_bytes, now.resident_bytes);
    }
  }
  void TakePass() {
    for (const WeightStep& step : model_.steps()) {
      source_.Prefetch(step);
      for (const TensorId tensor : step.tensors) {
        TakeRows(tensor, 0, model_.checkpoint().tensors()[tensor].num_rows());
      }
    }
  }

  uint64_t most_mapped_bytes = 0;
  uint64_t most_cached_bytes = 0;
  uint64_t most_mappings = 0;
  uint64_t least_mapped_bytes = ~uint64_t{0};

 private:
  const StreamedModel& model_;
  BoundedMmapSource& source_;
  uint64_t sum_ = 0;
};

class BoundedMmapMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sync();  // dirty pages cannot be dropped
    const RandomAccessFile& file = *model_.checkpoint().files()[0];
    file.DropCache(0, file.size_bytes());
    if (file.CachedBytes().value_or(1) != 0) {
      GTEST_SKIP() << "the page cache cannot be dropped or seen here";
    }
  }

  std::unique_ptr<BoundedMmapSource> Open(const ResidencyPlan& plan,
                                          uint64_t window_bytes) {
    auto source = NewBoundedMmapSource(model_.checkpoint(), plan, window_bytes,
                                       account_, NoProgress);
    EXPECT_THAT(source.status(), IsOk());
    return source.ok() ? *std::move(source) : nullptr;
  }

  // Beside the build: the system's temporary files may be memory.
  const StreamedModel model_{LOWMEM_BINARY_DIR};
  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
};

TEST_F(BoundedMmapMemoryTest, StaysWithinItsFootprintAtEveryMoment) {
  for (const int percent : {0, 20, 50, 90}) {
    for (const uint64_t window_bytes :
         {SmallWindow(), SmallWindow() + 24 * PageBytes()}) {
      SCOPED_TRACE(absl::StrCat(percent, " %, window ", window_bytes));
      const ResidencyPlan plan = model_.PlanFor(percent / 100.0);
      const MappedFootprint footprint =
          FootprintOfMapped(model_.checkpoint(), plan, window_bytes);
      const auto source = Open(plan, window_bytes);
      Watch watch(model_, *source);
      watch.TakePass();
      watch.TakeRows(model_.Find("embedding"), 17, 18);
      watch.TakePass();
      EXPECT_LE(watch.most_cached_bytes, footprint.mapped_bytes());
      EXPECT_LE(watch.most_mapped_bytes, footprint.mapped_bytes());
      EXPECT_EQ(watch.most_mappings, 1u);
      // Resident rows stay, and the window is used.
      EXPECT_GE(watch.least_mapped_bytes, footprint.resident_bytes);
      EXPECT_GE(watch.most_cached_bytes,
                footprint.resident_bytes + window_bytes / 2);
    }
  }
}

TEST_F(BoundedMmapMemoryTest, OtherOrdersStayWithinItToo) {
  const ResidencyPlan plan = model_.PlanFor(0.3);
  const MappedFootprint footprint =
      FootprintOfMapped(model_.checkpoint(), plan, SmallWindow());
  const auto source = Open(plan, SmallWindow());
  Watch watch(model_, *source);
  std::mt19937 random(11);
  for (int i = 0; i < 200; ++i) {
    const WeightStep& step = model_.steps()[random() % 3];
    const TensorId tensor = step.tensors[random() % step.tensors.size()];
    const uint64_t num_rows = model_.checkpoint().tensors()[tensor].num_rows();
    const uint64_t row = random() % num_rows;
    watch.TakeRows(tensor, row, row + 1 + random() % (num_rows - row));
    const uint64_t looked_up = random() % 97;
    watch.TakeRows(model_.Find("embedding"), looked_up, looked_up + 1);
    if (i % 3 == 0) source->Prefetch(step);
  }
  EXPECT_LE(watch.most_cached_bytes, footprint.mapped_bytes());
  EXPECT_LE(watch.most_mapped_bytes, footprint.mapped_bytes());
}

TEST_F(BoundedMmapMemoryTest, WhatIsBeingReadWhenItIsGivenUpIsDroppedToo) {
  const testing::TemporaryFolder folder(LOWMEM_BINARY_DIR);
  constexpr uint64_t kRows = 4096;  // of a page
  const std::string path =
      folder.Write("model.safetensors",
                   testing::FileOf({testing::Matrix("w", kRows, PageBytes())}));
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  const TensorId tensor = *checkpoint->Find("w");
  sync();
  const RandomAccessFile& file = *checkpoint->files()[0];
  file.DropCache(0, file.size_bytes());
  const std::vector<WeightStep> steps = {{{tensor}}};
  ASSERT_OK_AND_ASSIGN(
      const MappedPlan plan,
      PlanMapped(*checkpoint, DescribeSteps(*checkpoint, steps, {}),
                 uint64_t{5} << 20));
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewBoundedMmapSource(*checkpoint, plan.residency, plan.window_bytes,
                           account_, NoProgress));
  uint64_t most_bytes = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    // From the end of the file to its middle and back.
    ASSERT_OK_AND_ASSIGN(
        const WeightLease lease,
        source->Acquire(tensor, kRows - 1 - 16 * (i % 2 * 60 + i), 2));
    most_bytes = std::max(most_bytes, file.CachedBytes().value_or(0));
  }
  EXPECT_LE(most_bytes, plan.footprint.mapped_bytes());
  EXPECT_GT(most_bytes, plan.window_bytes / 2);
}

TEST_F(BoundedMmapMemoryTest, WhatWasCachedBeforeIsNoMore) {
  const RandomAccessFile& file = *model_.checkpoint().files()[0];
  // As large as the kernel likes to cache it: in more than pages.
  std::vector<uint8_t> bytes(file.size_bytes());
  ASSERT_THAT(file.Read(0, absl::MakeSpan(bytes)), IsOk());
  ASSERT_EQ(file.CachedBytes().value_or(0), file.size_bytes());
  const ResidencyPlan plan = model_.PlanFor(0.3);
  const auto source = Open(plan, SmallWindow());
  EXPECT_LE(file.CachedBytes().value_or(0),
            FootprintOfMapped(model_.checkpoint(), plan, SmallWindow())
                .mapped_bytes());
}

TEST_F(BoundedMmapMemoryTest, LeavesNothingBehind) {
  {
    const auto source = Open(model_.PlanFor(0.3), SmallWindow());
    Watch watch(model_, *source);
    watch.TakePass();
    EXPECT_GT(watch.CachedBytes(), 0u);
  }
  EXPECT_EQ(model_.checkpoint().files()[0]->CachedBytes().value_or(0), 0u);
}

TEST_F(BoundedMmapMemoryTest, StorageIsReadForWhatStreamsAndNothingElse) {
  const ResidencyPlan plan = model_.PlanFor(0.5);
  const auto source = Open(plan, SmallWindow());
  Watch watch(model_, *source);
  watch.TakePass();
  const auto before = ReadProcessMemory().storage_read_bytes;
  if (before.value_or(0) == 0) {
    GTEST_SKIP() << "the kernel does not count what is read from storage";
  }
  constexpr int kNumPasses = 5;
  for (int i = 0; i < kNumPasses; ++i) watch.TakePass();
  const uint64_t pass_bytes =
      (*ReadProcessMemory().storage_read_bytes - *before) / kNumPasses;
  const uint64_t end_bytes =
      StreamedRanges(model_.checkpoint(), plan).size() * 2 * PageBytes();
  EXPECT_LE(pass_bytes, plan.streamed_bytes_per_pass + end_bytes);
  EXPECT_GE(pass_bytes + end_bytes, plan.streamed_bytes_per_pass);
}

// As where another process keeps the file in the cache. The kernel then maps
// pages around those that are touched, with each of many ranges.
TEST(BoundedMmapTmpfsTest, TheProcessStaysBoundedOverAFileInMemory) {
  const testing::SmallDisk disk(40 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a tmpfs is not allowed";
  std::vector<testing::NamedShape> shapes;
  for (int i = 0; i < 200; ++i) {
    shapes.push_back(testing::Matrix(absl::StrCat(i), 120, 1100));
  }
  const std::string path = disk.path() + "/model.safetensors";
  std::ofstream(path, std::ios::binary) << testing::FileOf(shapes);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  std::vector<WeightStep> steps;
  for (const testing::NamedShape& shape : shapes) {
    steps.push_back({{*checkpoint->Find(shape.name)}});
  }
  ASSERT_OK_AND_ASSIGN(
      const MappedPlan plan,
      PlanMapped(*checkpoint, DescribeSteps(*checkpoint, steps, {}),
                 uint64_t{6} << 20));
  ASSERT_GT(StreamedRanges(*checkpoint, plan.residency).size(), 190u);
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  uint64_t most_bytes = 0;
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewBoundedMmapSource(*checkpoint, plan.residency, plan.window_bytes,
                           account, [&](uint64_t, uint64_t) {
                             most_bytes = std::max(
                                 most_bytes,
                                 testing::MappedMemoryOf(path).resident_bytes);
                             return absl::OkStatus();
                           }));
  most_bytes =
      std::max(most_bytes, testing::MappedMemoryOf(path).resident_bytes);
  EXPECT_LE(most_bytes, plan.footprint.mapped_bytes());
  for (int pass = 0; pass < 2; ++pass) {
    for (const WeightStep& step : steps) {
      for (uint64_t row = 0; row < 120;) {
        ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                             source->Acquire(step.tensors[0], row, 120 - row));
        most_bytes =
            std::max(most_bytes, testing::MappedMemoryOf(path).resident_bytes);
        row += lease.num_rows();
      }
    }
  }
  // 15 pages at each end of each piece.
  EXPECT_LE(most_bytes, plan.footprint.mapped_bytes() +
                            kMaxWindowPieces * 2 * 15 * PageBytes());
  EXPECT_GE(most_bytes, plan.footprint.resident_bytes);
}

// A matrix of 256 MiB, which is a hole in its file.
TEST(BoundedMmapPageTableTest, TablesAreGivenBackBehindTheWindow) {
  const testing::TemporaryFolder folder(LOWMEM_BINARY_DIR);
  constexpr uint64_t kRows = 64 << 10;
  const std::string path = folder.Write(
      "model.safetensors",
      testing::SafetensorsBytes(
          absl::StrCat(R"({"w":{"dtype":"U8","shape":[)", kRows,
                       R"(,4096],"data_offsets":[0,)", kRows * 4096, "]}}"),
          ""));
  const uint64_t head_bytes = fs::file_size(path);
  fs::resize_file(path, head_bytes + kRows * 4096);
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  const std::vector<WeightStep> steps = {{{*checkpoint->Find("w")}}};
  ASSERT_OK_AND_ASSIGN(
      const MappedPlan plan,
      PlanMapped(*checkpoint, DescribeSteps(*checkpoint, steps, {}),
                 uint64_t{2} << 20));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  const uint64_t before = testing::PageTableBytes();
  if (before == 0) GTEST_SKIP() << "the kernel does not tell of page tables";
  ASSERT_OK_AND_ASSIGN(
      const auto source,
      NewBoundedMmapSource(*checkpoint, plan.residency, plan.window_bytes,
                           account, NoProgress));
  uint64_t most_bytes = 0;
  uint64_t sum = 0;
  for (uint64_t row = 0; row < kRows;) {
    ASSERT_OK_AND_ASSIGN(const WeightLease lease,
                         source->Acquire(0, row, kRows - row));
    for (uint64_t i = 0; i < lease.num_rows(); ++i) {
      sum += lease.data()[i * 4096];
    }
    row += lease.num_rows();
    most_bytes = std::max(most_bytes, testing::PageTableBytes());
  }
  EXPECT_EQ(sum, 0u);
  EXPECT_LE(most_bytes, before + plan.footprint.page_table_bytes);
  // Far less than a table for every span.
  EXPECT_LE(plan.footprint.page_table_bytes,
            (kRows * 4096 / PageTableSpanBytes()) * PageBytes() / 2);
  EXPECT_EQ(testing::MappedMemoryOf(path).num_mappings, 1u);
}

}  // namespace
}  // namespace lowmem
