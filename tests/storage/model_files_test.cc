// SPDX-License-Identifier: Apache-2.0
// What belongs to a model: names, and files under whatever name.
#include "storage/model_files.h"

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::Fails;
using testing::IsOk;
using testing::TemporaryFolder;

constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr char kTestdata[] = LOWMEM_TESTDATA_DIR;

TEST(ModelFilesTest, NamesOfAPublishedFolder) {
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "tokenizer.model", "model.safetensors",
        "model-00001-of-00002.safetensors", "model.safetensors.index.json",
        "vocab.json", "merges.txt", "special_tokens_map.json",
        "added_tokens.json", "chat_template.jinja", "chat_template.json",
        "README.md", "LICENSE", "LICENSE.txt", ".gitattributes"}) {
    EXPECT_TRUE(IsModelFileName(name)) << name;
  }
  for (const char* name : {"", ".git", "src", "main.py", "package.json",
                           "config.json.bak", "Config.json", "model.gguf"}) {
    EXPECT_FALSE(IsModelFileName(name)) << name;
  }
}

TEST(ModelFilesTest, ForeignEntryIsTheFirstByName) {
  const TemporaryFolder folder;
  const auto first = [&] {
    const auto name = FirstForeignEntry(folder.path());
    EXPECT_THAT(name, IsOk());
    return name.value_or("?");
  };
  EXPECT_EQ(first(), "");
  folder.Write("config.json", "{}");
  folder.Write(".cache/huggingface/download/a", "");
  fs::create_symlink("nowhere", folder / "model.safetensors");
  EXPECT_EQ(first(), "");
  // The name of a model's file is not enough.
  ASSERT_EQ(mkfifo((folder / "vocab.json").c_str(), 0600), 0);
  EXPECT_EQ(first(), "vocab.json");
  fs::create_directory(folder / "tokenizer.json");
  EXPECT_EQ(first(), "tokenizer.json");
  folder.Write("src/main.cc", "");
  EXPECT_EQ(first(), "src");
  folder.Write(".cache/mine", "");
  EXPECT_EQ(first(), ".cache");
  EXPECT_THAT(FirstForeignEntry(folder / "no"),
              Fails(absl::StatusCode::kUnavailable, "no"));
}

TEST(ModelFilesTest, AFolderOfWeightsIsSpared) {
  const TemporaryFolder outer;
  const std::string model = outer / "m";
  fs::copy(std::string(kTestdata) + "/tiny/llama", model);
  fs::create_symlink("m/config.json", outer / "link");
  fs::create_symlink("m/new.json", outer / "link to new");
  fs::create_symlink("m", outer / "folder link");
  fs::create_hard_link(model + "/tokenizer.json", outer / "hard link");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(model));
  for (const char* name :
       {"m/model.safetensors", "m/config.json", "m/tokenizer.json",
        "m/new.safetensors", "m/new.JSON", "m/new.gguf", "link", "link to new",
        "folder link/model.safetensors", "folder link/../m/new.json",
        "hard link"}) {
    EXPECT_THAT(CheckSparesModel(*checkpoint, outer / name),
                Fails(kInvalidArgument, name))
        << name;
  }
  for (const char* name : {"m/trace", "model.safetensors", "config.json"}) {
    EXPECT_THAT(CheckSparesModel(*checkpoint, outer / name), IsOk()) << name;
  }
}

// The weights are a blob elsewhere, as in the hub's cache.
TEST(ModelFilesTest, FilesBehindLinksAreSpared) {
  const TemporaryFolder outer;
  fs::copy(std::string(kTestdata) + "/tiny/llama", outer / "blobs");
  fs::create_directory(outer / "m");
  for (const auto& blob : fs::directory_iterator(outer / "blobs")) {
    fs::create_symlink(blob.path(),
                       fs::path(outer / "m") / blob.path().filename());
  }
  ASSERT_OK_AND_ASSIGN(const auto checkpoint, Checkpoint::Open(outer / "m"));
  for (const char* name : {"blobs/model.safetensors", "blobs/config.json",
                           "m/model.safetensors"}) {
    EXPECT_THAT(CheckSparesModel(*checkpoint, outer / name),
                Fails(kInvalidArgument, "of the model in use"))
        << name;
  }
}

TEST(ModelFilesTest, BesideAGgufOnlyGgufsAreSpared) {
  const TemporaryFolder folder;
  fs::copy_file(std::string(kTestdata) + "/tiny-gguf/llama-f16.gguf",
                folder / "a.gguf");
  fs::create_symlink("a.gguf", folder / "b.safetensors");
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       Checkpoint::Open(folder / "a.gguf"));
  for (const char* name : {"a.gguf", "b.safetensors", "c.gguf"}) {
    EXPECT_THAT(CheckSparesModel(*checkpoint, folder / name),
                Fails(kInvalidArgument, name));
  }
  EXPECT_THAT(CheckSparesModel(*checkpoint, folder / "trace.safetensors"),
              IsOk());
}

}  // namespace
}  // namespace lowmem
