// SPDX-License-Identifier: Apache-2.0
// convert: the folder it writes is the same model, and what fails leaves
// nothing.
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

namespace fs = std::filesystem;

class ConvertTest : public ::testing::Test {
 protected:
  std::string Out() const { return folder_.Path("out"); }
  const TempFolder folder_;
};

std::vector<int64_t> GreedyIds(const std::string& model,
                               const std::string& text) {
  const SubprocessResult result =
      RunCli({"-m", model, "--json", "generate", "-p", text, "--temperature",
              "0", "--ignore-eos", "-n", "24"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  std::vector<int64_t> ids = Integers(At(json, "prompt_ids"));
  for (const int64_t id : Integers(At(json, "ids"))) ids.push_back(id);
  return ids;
}

// Weights that are bf16 in the GGUF lose nothing, rope scaling included.
TEST_F(ConvertTest, GgufInBf16GivesTheSameIdsAsAFolder) {
  const SubprocessResult result =
      RunCli({"convert", TinyGguf("llama3-bf16"), Out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "");
  for (const char* file :
       {"config.json", "generation_config.json", "tokenizer.json",
        "tokenizer_config.json", "model.safetensors"}) {
    EXPECT_TRUE(fs::exists(Out() + "/" + file)) << file;
  }
  const std::string text = "In the morning there were 30 ships";
  EXPECT_EQ(GreedyIds(Out(), text), GreedyIds(TinyGguf("llama3-bf16"), text));
}

TEST_F(ConvertTest, ShardedFolderBecomesOneFile) {
  ASSERT_EQ(RunCli({"convert", Tiny("qwen2_sharded"), Out()}).exit_code, 0);
  EXPECT_EQ(GreedyIds(Out(), "The sea"),
            GreedyIds(Tiny("qwen2_sharded"), "The sea"));
}

TEST_F(ConvertTest, NeverOverwritesWithoutForce) {
  const std::vector<std::string> args = {"convert", Tiny("llama"), Out()};
  ASSERT_EQ(RunCli(args).exit_code, 0);
  const std::string before = ReadFile(Out() + "/config.json");
  EXPECT_TRUE(IsRefusal(RunCli(args), 2, Out()));
  EXPECT_EQ(ReadFile(Out() + "/config.json"), before);
  ASSERT_EQ(RunCli({"convert", Tiny("qwen2"), Out(), "--force"}).exit_code, 0);
  EXPECT_NE(ReadFile(Out() + "/config.json"), before);
  EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("out"));
}

TEST_F(ConvertTest, ForceReplacesNothingThatIsNoModel) {
  fs::create_directory(Out());
  WriteFile(Out() + "/thesis.txt", "the only copy");
  EXPECT_TRUE(IsRefusal(RunCli({"convert", Tiny("llama"), Out(), "--force"}), 2,
                        Out()));
  EXPECT_EQ(ReadFile(Out() + "/thesis.txt"), "the only copy");
}

TEST_F(ConvertTest, DamagedInputLeavesNothing) {
  const std::string model = CopyTiny("llama", folder_);
  fs::resize_file(model + "/model.safetensors", 300000);
  EXPECT_TRUE(
      IsRefusal(RunCli({"convert", model, Out()}), 4, "model.safetensors"));
  EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("model"));
}

TEST_F(ConvertTest, FullDiskIsCode7AndLeavesNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "a file system of 200 KB needs root";
  const std::string disk = folder_.Path("disk");
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=200k") != 0) {
    GTEST_SKIP() << "mounting is not allowed here";
  }
  const SubprocessResult result =
      RunCli({"convert", Tiny("llama"), disk + "/out"});
  const bool left = !fs::is_empty(disk);
  umount(disk.c_str());
  EXPECT_TRUE(IsRefusal(result, 7, "no space left"));
  EXPECT_FALSE(left);
}

TEST_F(ConvertTest, FileSizeLimitIsCode7AndLeavesNothing) {
  EXPECT_TRUE(IsRefusal(
      RunCliLimited("ulimit -f 100", {"convert", Tiny("llama"), Out()}), 7,
      "ulimit -f"));
  EXPECT_THAT(folder_.Names(), ::testing::IsEmpty());
}

// From too few to read the model to enough for all.
TEST_F(ConvertTest, FewDescriptorsLeaveAllOrNothing) {
  int num_refused = 0;
  for (int num_files = 4; num_files < 16; ++num_files) {
    const SubprocessResult result =
        RunCliLimited(absl::StrCat("ulimit -n ", num_files),
                      {"convert", Tiny("llama"), Out()});
    if (result.exit_code == 0) {
      EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("out"));
      fs::remove_all(Out());
      continue;
    }
    ++num_refused;
    EXPECT_THAT(folder_.Names(), ::testing::IsEmpty()) << num_files;
  }
  EXPECT_GT(num_refused, 0);
  EXPECT_LT(num_refused, 12);
}

TEST_F(ConvertTest, TooLongANameIsCode2) {
  EXPECT_TRUE(IsRefusal(
      RunCli({"convert", Tiny("llama"), folder_.Path(std::string(300, 'n'))}),
      2, "the name is too long"));
}

TEST_F(ConvertTest, ForceSparesAProjectAndTheFilesOfTheInput) {
  const std::string model = CopyTiny("llama", folder_);
  fs::create_directory(folder_.Path("links"));
  for (const fs::directory_entry& file : fs::directory_iterator(model)) {
    fs::create_symlink(
        file.path(), fs::path(folder_.Path("links")) / file.path().filename());
  }
  EXPECT_TRUE(
      IsRefusal(RunCli({"convert", folder_.Path("links"), model, "--force"}), 2,
                "place of the input"));
  fs::create_directories(Out() + "/src");
  WriteFile(Out() + "/config.json", "{}");
  EXPECT_TRUE(
      IsRefusal(RunCli({"convert", model, Out(), "--force"}), 2, "got src"));
  EXPECT_TRUE(fs::exists(Out() + "/src"));
}

}  // namespace
}  // namespace lowmem::testing
