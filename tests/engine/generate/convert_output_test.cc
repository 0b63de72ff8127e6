// SPDX-License-Identifier: Apache-2.0
// The folder that convert writes: whole or not at all, and nothing replaced
// that was not offered.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "engine/generate/convert.h"
#include "storage/checkpoint.h"
#include "tests/engine/generate/convert_inputs.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::Fails;
using testing::Gguf;
using ::testing::IsEmpty;
using testing::IsOk;
using testing::ListFolder;
using testing::Options;
using testing::ReadFileBytes;
using testing::SmallDisk;
using testing::TemporaryFolder;
using testing::Tiny;

TEST(ConvertOutputTest, CancelledWorkLeavesNothingBehind) {
  const TemporaryFolder folder;
  std::atomic<bool> cancel = false;
  ConvertOptions options = Options(Gguf("llama-f16"), folder / "out");
  options.cancel = &cancel;
  options.progress = [&](uint64_t, uint64_t) { cancel = true; };
  EXPECT_THAT(ConvertCheckpoint(options),
              Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

TEST(ConvertOutputTest, ExistingOutputIsKeptWithoutForce) {
  const TemporaryFolder folder;
  folder.Write("out/config.json", "old");
  EXPECT_THAT(ConvertCheckpoint(Options(Gguf("llama-f16"), folder / "out")),
              Fails(absl::StatusCode::kInvalidArgument, "exists already"));
  EXPECT_EQ(ReadFileBytes(folder / "out/config.json"), "old");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("out"));
}

TEST(ConvertOutputTest, ForceReplacesAModelAsAWhole) {
  const TemporaryFolder folder;
  folder.Write("out/config.json", "old");
  folder.Write("out/left over", "old");
  ConvertOptions options = Options(Gguf("llama-f16"), folder / "out/");
  options.force = true;
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  EXPECT_FALSE(fs::exists(folder / "out/left over"));
  EXPECT_THAT(Checkpoint::Open(folder / "out"), IsOk());
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("out"));
}

TEST(ConvertOutputTest, ForceDoesNotReplaceWhatIsNoModel) {
  const TemporaryFolder folder;
  folder.Write("home/letter.txt", "dear");
  folder.Write("file", "dear");
  for (const std::string& out : {folder / "home", folder / "file"}) {
    ConvertOptions options = Options(Gguf("llama-f16"), out);
    options.force = true;
    EXPECT_THAT(ConvertCheckpoint(options),
                Fails(absl::StatusCode::kInvalidArgument, "is not replaced"));
  }
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("file", "home"));
}

TEST(ConvertOutputTest, OutputInPlaceOfTheInputIsRefused) {
  const TemporaryFolder folder;
  fs::copy(Tiny("llama"), folder / "m");
  fs::copy_file(Gguf("llama-f16"), folder / "m/a.gguf");
  fs::create_symlink("m", folder / "link");
  const std::pair<std::string, std::string> kCases[] = {
      {folder / "m", folder / "m"},
      {folder / "m", folder / "m/"},
      {folder / "m/a.gguf", folder / "m"},
      {folder / "m", folder / "link"},
      {folder / "link/a.gguf", folder / "m/../m"}};
  for (const auto& [in, out] : kCases) {
    ConvertOptions options = Options(in, out);
    options.force = true;
    EXPECT_THAT(ConvertCheckpoint(options),
                Fails(absl::StatusCode::kInvalidArgument, "place of the input"))
        << in << " to " << out;
  }
  EXPECT_THAT(Checkpoint::Open(folder / "m/a.gguf"), IsOk());
}

TEST(ConvertOutputTest, FullDiskLeavesNothingBehind) {
  // Room for the small files and a part of the weights.
  const SmallDisk disk(120 << 10);
  if (!disk.is_mounted()) GTEST_SKIP() << "mounting a small disk needs root";
  const std::string old = disk.path() + "/out";
  fs::create_directory(old);
  std::ofstream(old + "/config.json") << "old";
  ConvertOptions options = Options(Gguf("llama-f16"), old);
  options.force = true;
  EXPECT_THAT(ConvertCheckpoint(options), Fails(absl::StatusCode::kUnavailable,
                                                "no space left on the disk"));
  EXPECT_EQ(ReadFileBytes(old + "/config.json"), "old");
  EXPECT_THAT(ListFolder(disk.path()), ElementsAre("out"));
  EXPECT_THAT(ListFolder(old), ElementsAre("config.json"));
}

TEST(ConvertOutputTest, AbsentInputAndAbsentParentAreNotFound) {
  const TemporaryFolder folder;
  EXPECT_THAT(ConvertCheckpoint(Options(folder / "no.gguf", folder / "out")),
              Fails(absl::StatusCode::kNotFound, "no.gguf"));
  EXPECT_THAT(ConvertCheckpoint(Options(Gguf("llama-f16"), folder / "no/out")),
              Fails(absl::StatusCode::kNotFound, "no/out"));
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace lowmem
