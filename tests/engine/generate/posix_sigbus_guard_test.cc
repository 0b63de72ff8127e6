// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_sigbus_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "lowmem/sigbus_guard.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

// A mapped file of `num_pages` pages of 'x'.
class MappedFile {
 public:
  explicit MappedFile(size_t num_pages) : num_bytes_(num_pages * 4096) {
    path_ = folder_.Write("file", std::string(num_bytes_, 'x'));
    const int fd = open(path_.c_str(), O_RDONLY);
    bytes_ = static_cast<const uint8_t*>(
        mmap(nullptr, num_bytes_, PROT_READ, MAP_SHARED, fd, 0));
    close(fd);
  }
  ~MappedFile() { munmap(const_cast<uint8_t*>(bytes_), num_bytes_); }
  absl::Span<const uint8_t> bytes() const { return {bytes_, num_bytes_}; }
  uint8_t Read(size_t ofs) const {
    return *static_cast<const volatile uint8_t*>(bytes_ + ofs);
  }
  void Cut(size_t num_bytes) { std::filesystem::resize_file(path_, num_bytes); }

 private:
  testing::TemporaryFolder folder_;
  std::string path_;
  size_t num_bytes_;
  const uint8_t* bytes_;
};

TEST(SigbusGuardTest, LostPagesReadAsZeroAndAreNoted) {
  ASSERT_THAT(InstallSigbusGuard(), IsOk());
  ASSERT_THAT(InstallSigbusGuard(), IsOk());  // once is enough
  MappedFile file(4);
  MappedFile other(4);
  GuardedRanges ranges;
  ranges.Add(file.bytes());
  GuardedRanges other_ranges;
  other_ranges.Add(other.bytes());
  file.Cut(4096);
  EXPECT_EQ(file.Read(0), 'x');
  EXPECT_FALSE(ranges.lost());
  EXPECT_EQ(file.Read(2 * 4096 + 5), 0);
  EXPECT_TRUE(ranges.lost());
  EXPECT_EQ(file.Read(3 * 4096), 0);
  EXPECT_EQ(file.Read(4096), 0);
  EXPECT_EQ(file.Read(0), 'x');
  EXPECT_FALSE(other_ranges.lost());
}

TEST(SigbusGuardTest, ASlotIsFreeAgainAfterItsRange) {
  ASSERT_THAT(InstallSigbusGuard(), IsOk());
  for (size_t i = 0; i < 2 * GuardedRanges::kMaxRanges; ++i) {
    GuardedRanges ranges;
    ranges.Add(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(&ranges), 1));
  }
  MappedFile file(2);
  GuardedRanges ranges;
  ranges.Add(file.bytes());
  file.Cut(0);
  EXPECT_EQ(file.Read(0), 0);
  EXPECT_TRUE(ranges.lost());
}

TEST(SigbusGuardTest, MovedRangesAreStillGuarded) {
  ASSERT_THAT(InstallSigbusGuard(), IsOk());
  MappedFile file(2);
  GuardedRanges first;
  first.Add(file.bytes());
  GuardedRanges second = std::move(first);
  first = GuardedRanges();
  file.Cut(0);
  EXPECT_EQ(file.Read(4096), 0);
  EXPECT_TRUE(second.lost());
  EXPECT_FALSE(first.lost());
}

// A process of its own for each: the guard is installed once for all.
class SigbusGuardDeathTest : public ::testing::Test {
 protected:
  SigbusGuardDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Faults elsewhere kill the process as they always did.
TEST_F(SigbusGuardDeathTest, ForeignFaultsAreLeftToOthers) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        if (!InstallSigbusGuard().ok()) _exit(1);
        MappedFile file(2);
        file.Cut(0);
        _exit(file.Read(0));
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST_F(SigbusGuardDeathTest, ASignalThatSomebodySentIsLeftToOthers) {
  EXPECT_EXIT(
      {
        signal(SIGBUS, SIG_DFL);
        if (!InstallSigbusGuard().ok()) _exit(1);
        kill(getpid(), SIGBUS);
        _exit(0);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

// A model that is truncated under a running session: the call fails, the
// process and what was generated live.
TEST(SigbusGuardTest, AModelThatIsTruncatedEndsGenerationWithAnError) {
  ASSERT_THAT(InstallSigbusGuard(), IsOk());
  testing::TemporaryFolder folder;
  std::filesystem::copy(absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama"),
                        folder.path(),
                        std::filesystem::copy_options::recursive);
  EngineOptions options;
  options.model_path = folder.path();
  options.mode = Mode::kMmap;
  options.num_threads = 2;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                       Engine::Open(options));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> session,
                       engine->NewSession());
  ASSERT_THAT(session->AppendIds({267, 220, 297}), IsOk());
  GenerateOptions generate;
  generate.max_new_tokens = -1;
  generate.ignore_eos = true;
  int num_pieces = 0;
  EXPECT_THAT(session->Generate(generate,
                                [&](absl::string_view) {
                                  if (++num_pieces == 5) {
                                    std::filesystem::resize_file(
                                        folder / "model.safetensors", 4096);
                                  }
                                  return true;
                                }),
              Fails(absl::StatusCode::kUnavailable, folder.path()));
  EXPECT_GE(num_pieces, 5);
  EXPECT_GE(session->ids().size(), 8);
  EXPECT_THAT(
      session->Generate(generate, [](absl::string_view) { return true; }),
      Fails(absl::StatusCode::kUnavailable, ""));
}

}  // namespace
}  // namespace lowmem
