// SPDX-License-Identifier: Apache-2.0
// What a queue hides: short reads, ends of files, methods that the system
// refuses.
#include "storage/read_queue.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/memory_account.h"
#include "storage/read_rate.h"
#include "tests/support/faulty_file.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using testing::Fails;
using testing::FaultyFile;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::Pattern;
using testing::SafetensorsBytes;
using testing::TemporaryFolder;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
constexpr uint64_t kFileBytes = 5 * 4096 + 100;

// Gives at most `max_bytes` at once, and fails where it is told to.
class ShortBlockFile final : public BlockFile {
 public:
  ShortBlockFile(std::string bytes, size_t max_bytes, uint64_t failing_ofs)
      : bytes_(std::move(bytes)),
        max_bytes_(max_bytes),
        failing_ofs_(failing_ofs) {}
  int descriptor() const override { return -1; }
  absl::StatusOr<size_t> ReadSome(uint64_t offset,
                                  absl::Span<uint8_t> out) const override {
    EXPECT_EQ(offset % 4096, 0u);
    EXPECT_EQ(out.size() % 4096, 0u);
    if (offset == failing_ofs_) {
      return absl::UnavailableError("memory: cannot read: injected fault");
    }
    if (offset >= bytes_.size()) return 0;
    const size_t count = std::min(
        {out.size(), max_bytes_, bytes_.size() - static_cast<size_t>(offset)});
    std::memcpy(out.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  const std::string bytes_;
  const size_t max_bytes_;
  const uint64_t failing_ofs_;
};

class ReadQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(buffer_, AlignedBuffer::Allocate(1 << 20, account_));
  }
  absl::Span<uint8_t> Probe() { return {buffer_.data(), 4096}; }
  std::string Got(size_t num_bytes) const {
    return std::string(reinterpret_cast<const char*>(buffer_.data()),
                       num_bytes);
  }

  MemoryAccount account_{"buffers", MemoryAccount::kUnlimited, nullptr};
  AlignedBuffer buffer_;
};

TEST_F(ReadQueueTest, ShortReadsAreGoneOnWith) {
  const FaultyFile file(Pattern(kFileBytes));
  for (const size_t max_bytes : {4096, 5000, 8192, 1 << 20}) {
    StreamedFile streamed;
    streamed.file = &file;
    streamed.blocks = std::make_unique<ShortBlockFile>(Pattern(kFileBytes),
                                                       max_bytes, ~uint64_t{0});
    for (const uint64_t num_bytes : {1, 4096, 4097, 16384}) {
      const BlockRead read = {0, 4096, num_bytes, buffer_.data()};
      ASSERT_THAT(FinishRead(streamed, read, 0), IsOk());
      EXPECT_TRUE(Got(num_bytes) == Pattern(kFileBytes).substr(4096, num_bytes))
          << max_bytes << ", " << num_bytes;
    }
    // To the last byte of the file, which is no whole block.
    const BlockRead tail = {0, 8192, kFileBytes - 8192, buffer_.data()};
    ASSERT_THAT(FinishRead(streamed, tail, 0), IsOk());
    EXPECT_TRUE(Got(tail.num_bytes) == Pattern(kFileBytes).substr(8192));
    const BlockRead beyond = {0, 8192, kFileBytes - 8191, buffer_.data()};
    EXPECT_THAT(FinishRead(streamed, beyond, 0),
                Fails(kUnavailable, "memory: the file became shorter"));
    const BlockRead far = {0, 8 * 4096, 1, buffer_.data()};
    EXPECT_THAT(FinishRead(streamed, far, 0),
                Fails(kUnavailable, "expected 1 bytes at offset 32768, got 0"));
  }
}

TEST_F(ReadQueueTest, GoesOnFromWhatHasArrived) {
  const FaultyFile file(Pattern(kFileBytes));
  StreamedFile streamed;
  streamed.file = &file;
  streamed.blocks =
      std::make_unique<ShortBlockFile>(Pattern(kFileBytes), 1 << 20, 0);
  std::fill_n(buffer_.data(), kFileBytes, 0);
  const BlockRead read = {0, 0, kFileBytes, buffer_.data()};
  // The first block is not read again, the third, of which a part came, is.
  ASSERT_THAT(FinishRead(streamed, read, 2 * 4096 + 9), IsOk());
  EXPECT_TRUE(Got(kFileBytes) ==
              std::string(2 * 4096, '\0') + Pattern(kFileBytes).substr(8192));
}

TEST_F(ReadQueueTest, AFailureIsThatOfItsRead) {
  const FaultyFile file(Pattern(kFileBytes));
  std::vector<StreamedFile> files(1);
  files[0].file = &file;
  files[0].blocks =
      std::make_unique<ShortBlockFile>(Pattern(kFileBytes), 1 << 20, 8192);
  ASSERT_OK_AND_ASSIGN(const auto queue,
                       NewThreadReadQueue(std::move(files), 3, 2,
                                          BlockCaching::kBuffered, true));
  for (int round = 0; round < 50; ++round) {
    for (uint32_t slot = 0; slot < 3; ++slot) {
      queue->Start(slot, {0, slot * 4096, 4096, buffer_.data() + slot * 4096});
    }
    EXPECT_THAT(queue->Wait(2), Fails(kUnavailable, "injected"));
    EXPECT_THAT(queue->Wait(0), IsOk());
    EXPECT_THAT(queue->Wait(1), IsOk());
    EXPECT_TRUE(Got(8192) == Pattern(8192));
  }
}

// Runs `body` in a thread in which the system call fails with EPERM. False
// where the system does not let it be forbidden.
bool RunWithout(int system_call, const std::function<void()>& body) {
  bool is_forbidden = false;
  std::thread([&] {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(system_call),
                 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {4, code};
    is_forbidden = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    if (is_forbidden) body();
  }).join();
  return is_forbidden;
}

class OpenReadQueueTest : public ReadQueueTest {
 protected:
  // Beside the build: the system's temporary files may be memory.
  OpenReadQueueTest() : folder_(LOWMEM_BINARY_DIR) {}
  void SetUp() override {
    ReadQueueTest::SetUp();
    const std::string file = SafetensorsBytes(
        R"({"a":{"dtype":"U8","shape":[9000],"data_offsets":[0,9000]}})",
        Pattern(9000));
    ASSERT_OK_AND_ASSIGN(
        checkpoint_, Checkpoint::Open(folder_.Write("a.safetensors", file)));
  }
  absl::StatusOr<std::unique_ptr<ReadQueue>> Open(IoMethod method,
                                                  bool leave_no_cache = true) {
    return OpenReadQueue(
        *checkpoint_,
        {.method = method, .num_slots = 2, .leave_no_cache = leave_no_cache},
        Probe());
  }

  const TemporaryFolder folder_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(OpenReadQueueTest, WithoutABudgetThePageCacheIsUsed) {
  ASSERT_OK_AND_ASSIGN(const auto queue, Open(IoMethod::kAuto, false));
  EXPECT_EQ(queue->description(), "2 reading threads, buffered");
}

TEST_F(OpenReadQueueTest, WhereIoUringIsForbiddenThreadsRead) {
  const bool was_forbidden = RunWithout(SYS_io_uring_setup, [&] {
    EXPECT_THAT(Open(IoMethod::kUring),
                Fails(absl::StatusCode::kUnimplemented, "io_uring"));
    ASSERT_OK_AND_ASSIGN(const auto queue, Open(IoMethod::kAuto));
    EXPECT_THAT(queue->description(), HasSubstr("reading threads, "));
    queue->Start(1, {0, 4096, 100, buffer_.data()});
    ASSERT_THAT(queue->Wait(1), IsOk());
    EXPECT_TRUE(
        Got(100) ==
        testing::ReadFileBytes(folder_ / "a.safetensors").substr(4096, 100));
  });
  if (!was_forbidden) GTEST_SKIP() << "system calls cannot be forbidden here";
}

TEST_F(OpenReadQueueTest, WhereRequestsOfIoUringAreForbiddenThreadsRead) {
  const bool was_forbidden = RunWithout(SYS_io_uring_enter, [&] {
    EXPECT_THAT(Open(IoMethod::kUring),
                Fails(absl::StatusCode::kUnimplemented, "io_uring"));
    ASSERT_OK_AND_ASSIGN(const auto queue, Open(IoMethod::kAuto));
    EXPECT_THAT(queue->description(), HasSubstr("reading threads, "));
  });
  if (!was_forbidden) GTEST_SKIP() << "system calls cannot be forbidden here";
}

TEST_F(OpenReadQueueTest, IoUringThatIsForbiddenLaterIsGoneOnWithout) {
  auto opened = Open(IoMethod::kUring);
  if (absl::IsUnimplemented(opened.status())) {
    GTEST_SKIP() << "no io_uring here";
  }
  ASSERT_THAT(opened.status(), IsOk());
  ReadQueue& queue = **opened;
  const std::string expected =
      testing::ReadFileBytes(folder_ / "a.safetensors").substr(4096, 100);
  queue.Start(0, {0, 4096, 100, buffer_.data()});
  ASSERT_TRUE(queue.WaitAtMost(0, 10'000));
  const bool was_forbidden = RunWithout(SYS_io_uring_enter, [&] {
    EXPECT_THAT(queue.Wait(0), IsOk());  // which had ended
    for (int round = 0; round < 3; ++round) {
      for (uint32_t slot = 0; slot < 2; ++slot) {
        std::fill_n(buffer_.data() + slot * 4096, 100, 0);
        queue.Start(slot, {0, 4096, 100, buffer_.data() + slot * 4096});
      }
      EXPECT_TRUE(queue.WaitAtMost(1, 10'000));
      EXPECT_THAT(queue.Wait(1), IsOk());
      EXPECT_THAT(queue.Wait(0), IsOk());
      EXPECT_TRUE(Got(100) == expected);
    }
  });
  if (!was_forbidden) GTEST_SKIP() << "system calls cannot be forbidden here";
}

TEST_F(OpenReadQueueTest, WhereFilesCannotBeOpenedAgainTheFirstOpenIsRead) {
  // As without /proc. The second open is openat or open, by the C library.
  const std::string expected =
      testing::ReadFileBytes(folder_ / "a.safetensors").substr(4096, 100);
  const bool was_forbidden = RunWithout(SYS_openat, [&] {
    EXPECT_THAT(Open(IoMethod::kDirectPread),
                Fails(absl::StatusCode::kUnimplemented, "direct reads"));
    ASSERT_OK_AND_ASSIGN(const auto queue, Open(IoMethod::kAuto));
    EXPECT_EQ(queue->description(),
              "2 reading threads, buffered, dropped behind");
    queue->Start(0, {0, 4096, 100, buffer_.data()});
    ASSERT_THAT(queue->Wait(0), IsOk());
    EXPECT_TRUE(Got(100) == expected);
  });
  if (!was_forbidden) GTEST_SKIP() << "system calls cannot be forbidden here";
}

TEST_F(OpenReadQueueTest, AFileSystemInMemoryIsRead) {
  if (!std::filesystem::is_directory("/dev/shm")) {
    GTEST_SKIP() << "no file system in memory here";
  }
  const TemporaryFolder folder("/dev/shm");
  if (folder.path().empty()) GTEST_SKIP() << "/dev/shm cannot be written";
  const std::string path = folder.Write(
      "a.safetensors",
      SafetensorsBytes(
          R"({"a":{"dtype":"U8","shape":[9000],"data_offsets":[0,9000]}})",
          Pattern(9000)));
  ASSERT_OK_AND_ASSIGN(checkpoint_, Checkpoint::Open(path));
  ASSERT_OK_AND_ASSIGN(const auto queue, Open(IoMethod::kAuto));
  queue->Start(0, {0, 4096, 4096, buffer_.data()});
  ASSERT_THAT(queue->Wait(0), IsOk()) << queue->description();
  EXPECT_TRUE(Got(4096) == testing::ReadFileBytes(path).substr(4096, 4096));
}

TEST_F(OpenReadQueueTest, TheRateOfADiskIsMeasuredWithoutLoadingAnything) {
  for (const IoMethod method : {IoMethod::kAuto, IoMethod::kUring,
                                IoMethod::kDirectPread, IoMethod::kBuffered}) {
    for (const uint64_t max_bytes : {1, 5000, 1 << 20}) {
      auto rate = MeasureReadRate(
          *checkpoint_, {.method = method, .max_bytes = max_bytes}, account_);
      if (absl::IsUnimplemented(rate.status())) continue;
      ASSERT_THAT(rate.status(), IsOk());
      EXPECT_GT(rate->bytes_per_s, 0);
      EXPECT_NE(rate->method, "");
    }
  }
  MemoryAccount small("rate", 1 << 20, nullptr);
  ReadRateOptions options = {.method = IoMethod::kBuffered, .max_bytes = 100};
  EXPECT_THAT(MeasureReadRate(*checkpoint_, options, small),
              Fails(absl::StatusCode::kResourceExhausted, "rate"));
  // A small ring takes no more than its own memory.
  options.ring = {.num_buffers = 4, .buffer_bytes = 64 << 10};
  EXPECT_THAT(MeasureReadRate(*checkpoint_, options, small), IsOk());
}

}  // namespace
}  // namespace lowmem
