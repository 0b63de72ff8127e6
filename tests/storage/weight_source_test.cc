// SPDX-License-Identifier: Apache-2.0
// Both sources behind weight_source.h: the same bytes, and what each promises.
#include "storage/weight_source.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using ::testing::Each;
using testing::Fails;
using ::testing::Gt;
using testing::IsOk;
using testing::Pattern;
using testing::SafetensorsBytes;
using ::testing::SizeIs;
using testing::TemporaryFolder;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
const std::string kTestdata = LOWMEM_TESTDATA_DIR;

absl::Status NoProgress(uint64_t, uint64_t) { return absl::OkStatus(); }

std::vector<TensorId> AllTensors(const Checkpoint& checkpoint) {
  std::vector<TensorId> ids(checkpoint.tensors().size());
  std::iota(ids.begin(), ids.end(), TensorId{0});
  return ids;
}

std::string BytesOf(const TensorInfo& tensor, const WeightLease& lease) {
  return std::string(reinterpret_cast<const char*>(lease.data()),
                     lease.num_rows() * tensor.row_bytes());
}

// All of a tensor, as callers take it: lease after lease.
absl::StatusOr<std::string> AllBytes(const Checkpoint& checkpoint,
                                     WeightSource& source, TensorId id) {
  const TensorInfo& tensor = checkpoint.tensors()[id];
  std::string bytes;
  for (uint64_t row = 0; row < tensor.num_rows();) {
    absl::StatusOr<WeightLease> lease =
        source.Acquire(id, row, tensor.num_rows() - row);
    if (!lease.ok()) return lease.status();
    bytes += BytesOf(tensor, *lease);
    row += lease->num_rows();
  }
  return bytes;
}

// Tensors at odd offsets: 1 byte, then 5 x 3 of F32, then 7 of BF16.
std::string UnalignedFile() {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("b":{"dtype":"F32","shape":[5,3],"data_offsets":[1,61]},)"
      R"("c":{"dtype":"BF16","shape":[7],"data_offsets":[61,75]},)"
      R"("d":{"dtype":"F32","shape":[0,3],"data_offsets":[75,75]}})";
  return SafetensorsBytes(header, Pattern(75));
}

TEST(WeightSourceTest, SourcesGiveTheBytesOfTheFile) {
  const TemporaryFolder folder;
  const std::string kPaths[] = {
      folder.Write("odd.safetensors", UnalignedFile()),
      kTestdata + "/tiny/llama", kTestdata + "/tiny/qwen2_sharded_scattered",
      kTestdata + "/tiny-gguf/llama-mixed.gguf"};
  for (const std::string& path : kPaths) {
    SCOPED_TRACE(path);
    ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
    MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
    ASSERT_OK_AND_ASSIGN(const auto mmap, NewMmapSource(*checkpoint));
    ASSERT_OK_AND_ASSIGN(
        const auto copy,
        NewCopySource(*checkpoint, AllTensors(*checkpoint), CopySourceOptions(),
                      account, NoProgress));
    EXPECT_EQ(mmap->resident_weight_bytes(), 0u);
    EXPECT_EQ(copy->resident_weight_bytes(), checkpoint->total_tensor_bytes());
    for (TensorId id = 0; id < checkpoint->tensors().size(); ++id) {
      const TensorInfo& tensor = checkpoint->tensors()[id];
      std::string expected(tensor.size_bytes, '\0');
      ASSERT_THAT(
          checkpoint->files()[tensor.file_idx]->Read(
              tensor.file_ofs,
              absl::MakeSpan(reinterpret_cast<uint8_t*>(expected.data()),
                             expected.size())),
          IsOk());
      ASSERT_OK_AND_ASSIGN(const std::string mapped,
                           AllBytes(*checkpoint, *mmap, id));
      ASSERT_OK_AND_ASSIGN(const std::string copied,
                           AllBytes(*checkpoint, *copy, id));
      EXPECT_TRUE(mapped == expected) << tensor.name;
      EXPECT_TRUE(copied == expected) << tensor.name;
    }
  }
}

TEST(WeightSourceTest, RowsCanBeTakenFromTheMiddle) {
  const TemporaryFolder folder;
  ASSERT_OK_AND_ASSIGN(
      const auto checkpoint,
      Checkpoint::Open(folder.Write("a.safetensors", UnalignedFile())));
  const TensorId id = *checkpoint->Find("b");
  const TensorInfo& tensor = checkpoint->tensors()[id];
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto mmap, NewMmapSource(*checkpoint));
  ASSERT_OK_AND_ASSIGN(const auto copy,
                       NewCopySource(*checkpoint, {id}, CopySourceOptions(),
                                     account, NoProgress));
  for (WeightSource* source : {mmap.get(), copy.get()}) {
    ASSERT_OK_AND_ASSIGN(const WeightLease two, source->Acquire(id, 1, 2));
    EXPECT_EQ(two.row_begin(), 1u);
    EXPECT_EQ(two.num_rows(), 2u);
    EXPECT_EQ(BytesOf(tensor, two), Pattern(75).substr(1 + 12, 24));
    ASSERT_OK_AND_ASSIGN(const WeightLease rest,
                         source->Acquire(id, 4, ~uint64_t{0}));
    EXPECT_EQ(rest.num_rows(), 1u);
    EXPECT_EQ(BytesOf(tensor, rest), Pattern(75).substr(1 + 48, 12));
  }
}

TEST(MmapSourceTest, PrefetchDoesNotChangeTheBytes) {
  ASSERT_OK_AND_ASSIGN(
      const auto checkpoint,
      Checkpoint::Open(kTestdata + "/tiny/qwen2_sharded_scattered"));
  ASSERT_OK_AND_ASSIGN(const auto plain, NewMmapSource(*checkpoint));
  ASSERT_OK_AND_ASSIGN(const auto fetching, NewMmapSource(*checkpoint));
  const WeightStep step = {AllTensors(*checkpoint)};
  for (int pass = 0; pass < 2; ++pass) {
    fetching->Prefetch(step);
    for (const TensorId id : step.tensors) {
      ASSERT_OK_AND_ASSIGN(const std::string a,
                           AllBytes(*checkpoint, *plain, id));
      ASSERT_OK_AND_ASSIGN(const std::string b,
                           AllBytes(*checkpoint, *fetching, id));
      EXPECT_TRUE(a == b);
    }
  }
}

TEST(MmapSourceTest, AFileThatChangedIsNoticedAtTheNextStep) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.safetensors", UnalignedFile());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  ASSERT_OK_AND_ASSIGN(const auto source, NewMmapSource(*checkpoint));
  const WeightStep step = {{*checkpoint->Find("b")}};
  source->Prefetch(step);
  EXPECT_THAT(source->Acquire(step.tensors[0], 0, 1), IsOk());
  fs::resize_file(path, 10);
  source->Prefetch(step);
  EXPECT_THAT(source->Acquire(step.tensors[0], 0, 1),
              Fails(kUnavailable, "changed while it was in use"));
  EXPECT_THAT(source->Acquire(step.tensors[0], 0, 1),
              Fails(kUnavailable, "changed"))
      << "the answer stays the same";
}

TEST(CopySourceTest, ChargesTheAccountForAsLongAsItLives) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  {
    ASSERT_OK_AND_ASSIGN(
        const auto source,
        NewCopySource(*checkpoint, AllTensors(*checkpoint), CopySourceOptions(),
                      account, NoProgress));
    EXPECT_GE(account.used_bytes(), checkpoint->total_tensor_bytes());
    // Alignment of each tensor, and the last page.
    EXPECT_LE(account.used_bytes(), checkpoint->total_tensor_bytes() +
                                        64 * checkpoint->tensors().size() +
                                        4096);
  }
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(CopySourceTest, IsRefusedBeforeTheFirstReadWhenTheBudgetIsTooSmall) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", checkpoint->total_tensor_bytes() - 1,
                        nullptr);
  bool was_called = false;
  EXPECT_THAT(NewCopySource(*checkpoint, AllTensors(*checkpoint),
                            CopySourceOptions(), account,
                            [&](uint64_t, uint64_t) {
                              was_called = true;
                              return absl::OkStatus();
                            }),
              Fails(absl::StatusCode::kResourceExhausted, "weights"));
  EXPECT_FALSE(was_called);
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(CopySourceTest, ATensorNamedTwiceIsHeldOnce) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto source,
                       NewCopySource(*checkpoint, {0, 0}, CopySourceOptions(),
                                     account, NoProgress));
  EXPECT_EQ(source->resident_weight_bytes(),
            checkpoint->tensors()[0].size_bytes);
}

TEST(CopySourceTest, ATensorThatWasNotNamedIsOurBug) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  ASSERT_OK_AND_ASSIGN(const auto source,
                       NewCopySource(*checkpoint, {0}, CopySourceOptions(),
                                     account, NoProgress));
  EXPECT_THAT(source->Acquire(1, 0, 1), Fails(absl::StatusCode::kInternal,
                                              checkpoint->tensors()[1].name));
}

TEST(CopySourceTest, ProgressRisesToTheTotal) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  uint64_t last = 0;
  ASSERT_THAT(NewCopySource(*checkpoint, AllTensors(*checkpoint),
                            CopySourceOptions(), account,
                            [&](uint64_t done, uint64_t total) {
                              EXPECT_GT(done, last);
                              EXPECT_EQ(total,
                                        checkpoint->total_tensor_bytes());
                              last = done;
                              return absl::OkStatus();
                            }),
              IsOk());
  EXPECT_EQ(last, checkpoint->total_tensor_bytes());
}

TEST(CopySourceTest, CancelledLoadEndsAtTheNextRead) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(kTestdata + "/tiny/llama"));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  int num_calls = 0;
  EXPECT_THAT(NewCopySource(*checkpoint, AllTensors(*checkpoint),
                            CopySourceOptions(), account,
                            [&](uint64_t, uint64_t) {
                              ++num_calls;
                              return absl::CancelledError("stopped");
                            }),
              Fails(absl::StatusCode::kCancelled, "stopped"));
  EXPECT_EQ(num_calls, 1);
  EXPECT_EQ(account.used_bytes(), 0u);
}

TEST(CopySourceTest, TruncationAfterOpeningIsUnavailable) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.safetensors", UnalignedFile());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  fs::resize_file(path, fs::file_size(path) - 1);
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  EXPECT_THAT(NewCopySource(*checkpoint, AllTensors(*checkpoint),
                            CopySourceOptions(), account, NoProgress),
              Fails(kUnavailable, "became shorter"));
}

TEST(CopySourceTest, AFileWrittenWhileLoadingIsUnavailable) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("a.safetensors", UnalignedFile());
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  EXPECT_THAT(NewCopySource(*checkpoint, AllTensors(*checkpoint),
                            CopySourceOptions(), account,
                            [&](uint64_t, uint64_t) {
                              fs::last_write_time(
                                  path, fs::file_time_type::clock::now() -
                                            std::chrono::hours(1));
                              return absl::OkStatus();
                            }),
              Fails(kUnavailable, "written or replaced"));
}

TEST(CopySourceTest, LeavesPageCacheBehindUnlessItIsDropped) {
  const TemporaryFolder folder;
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[20,1000003],"data_offsets":[0,20000060]}})";
  const std::string path = folder.Write(
      "a.safetensors", SafetensorsBytes(header, Pattern(20000060)));
  sync();  // dirty pages cannot be dropped
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(path));
  const RandomAccessFile& file = *checkpoint->files()[0];
  file.DropCache(0, fs::file_size(path));
  if (file.CachedBytes().value_or(1) != 0) {
    GTEST_SKIP() << "the page cache cannot be dropped or seen here";
  }
  MemoryAccount account("weights", MemoryAccount::kUnlimited, nullptr);
  CopySourceOptions options;
  ASSERT_THAT(NewCopySource(*checkpoint, {0}, options, account, NoProgress),
              IsOk());
  EXPECT_GE(file.CachedBytes().value_or(0), 20000060u);
  options.drop_behind = true;
  ASSERT_THAT(NewCopySource(*checkpoint, {0}, options, account, NoProgress),
              IsOk());
  EXPECT_EQ(file.CachedBytes().value_or(1), 0u);
}

}  // namespace
}  // namespace lowmem
