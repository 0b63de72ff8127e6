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
  folder.Write("out/left-over.safetensors", "old");
  ConvertOptions options = Options(Gguf("llama-f16"), folder / "out/");
  options.force = true;
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  EXPECT_FALSE(fs::exists(folder / "out/left-over.safetensors"));
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

TEST(ConvertOutputTest, ForceKeepsAFolderWithSomethingForeign) {
  const TemporaryFolder folder;
  folder.Write("project/config.json", "{}");
  folder.Write("project/src/main.cc", "text");
  folder.Write("notes/README.md", "dear");  // a model's name, but no model
  fs::create_directory(folder / "model");
  folder.Write("model/config.json", "{}");
  fs::create_symlink("model", folder / "link");
  fs::create_symlink("nowhere", folder / "dangling");
  const std::pair<const char*, const char*> kCases[] = {
      {"project", "got src"},
      {"notes", "no folder of a model"},
      {"link", "it is a link"},
      {"link/", "it is a link"},
      {"dangling", "it is a link"}};
  const auto before = ListFolder(folder.path());
  for (const auto& [out, message] : kCases) {
    ConvertOptions options = Options(Gguf("llama-f16"), folder / out);
    options.force = true;
    EXPECT_THAT(ConvertCheckpoint(options),
                Fails(absl::StatusCode::kInvalidArgument, message))
        << out;
  }
  EXPECT_EQ(ListFolder(folder.path()), before);
  EXPECT_EQ(ReadFileBytes(folder / "project/src/main.cc"), "text");
  EXPECT_EQ(ReadFileBytes(folder / "model/config.json"), "{}");
}

TEST(ConvertOutputTest, WhatComesMeanwhileIsKept) {
  const TemporaryFolder folder;
  folder.Write("out/config.json", "old");
  ConvertOptions options = Options(Gguf("llama-f16"), folder / "out");
  options.force = true;
  options.progress = [&](uint64_t, uint64_t) {
    folder.Write("out/letter.txt", "dear");
  };
  EXPECT_THAT(ConvertCheckpoint(options),
              Fails(absl::StatusCode::kInvalidArgument, "got letter.txt"));
  EXPECT_EQ(ReadFileBytes(folder / "out/letter.txt"), "dear");
  EXPECT_THAT(ListFolder(folder.path()), ElementsAre("out"));
}

TEST(ConvertOutputTest, ForceReplacesWhatItMadeItself) {
  const TemporaryFolder folder;
  ConvertOptions options = Options(Tiny("qwen2_sharded"), folder / "out");
  options.force = true;
  options.max_shard_bytes = 100'000;
  ASSERT_THAT(ConvertCheckpoint(options), IsOk());
  EXPECT_THAT(ConvertCheckpoint(options), IsOk());
}

// The input's files are links into the output, one of them or all.
TEST(ConvertOutputTest, OutputThatHoldsTheInputsFilesIsRefused) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "original");
  fs::create_directory(folder / "all");
  fs::create_directory(folder / "hard");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json",
                           "tokenizer_config.json"}) {
    const std::string file = folder / "original/" + name;
    fs::copy_file(Tiny("llama") + "/" + name, file);
    fs::create_symlink(file, folder / "all/" + name);
    fs::create_hard_link(file, folder / "hard/" + name);
  }
  fs::copy(Tiny("llama"), folder / "one");
  fs::remove(folder / "one/tokenizer.json");
  fs::create_symlink("../original/tokenizer.json",
                     folder / "one/tokenizer.json");
  for (const char* in : {"all", "all/model.safetensors", "one", "hard"}) {
    ConvertOptions options = Options(folder / in, folder / "original");
    options.force = true;
    EXPECT_THAT(ConvertCheckpoint(options),
                Fails(absl::StatusCode::kInvalidArgument, "place of the input"))
        << in;
  }
  EXPECT_THAT(Checkpoint::Open(folder / "original"), IsOk());
}

TEST(ConvertOutputTest, TooLongANameIsSaidToBe) {
  const TemporaryFolder folder;
  EXPECT_THAT(ConvertCheckpoint(
                  Options(Gguf("llama-f16"), folder / std::string(300, 'n'))),
              Fails(absl::StatusCode::kInvalidArgument, "name is too long"));
  EXPECT_THAT(ListFolder(folder.path()), IsEmpty());
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
