// SPDX-License-Identifier: Apache-2.0
// The published models through the command line: prompt ids from the text and
// greedy ids are those of the reference, from the GGUF and from the folder that
// convert wrote, in both modes. Skipped by name where a model was not fetched.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

struct RealModel {
  const char* name;
  const char* golden;   // in testdata/real
  const char* weights;  // "gguf" or "bf16"
  const char* path;     // below the source root
  const char* mode;
  friend void PrintTo(const RealModel& row, std::ostream* os) {
    *os << row.name;
  }
};

constexpr char kSmol[] = "smollm2-135m.json";
constexpr char kSmolGguf[] = "models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr char kSmolFolder[] = "models/smollm2-bf16";
constexpr char kQwen[] = "qwen2.5-coder-0.5b.json";
constexpr char kQwenGguf[] =
    "models/qwen2.5-coder-0.5b/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
constexpr char kQwenFolder[] = "models/qwen2.5-coder-0.5b-bf16";

const RealModel kModels[] = {
    {"SmolLM2GgufMmap", kSmol, "gguf", kSmolGguf, "mmap"},
    {"SmolLM2GgufCopy", kSmol, "gguf", kSmolGguf, "copy"},
    {"SmolLM2FolderMmap", kSmol, "bf16", kSmolFolder, "mmap"},
    {"SmolLM2FolderCopy", kSmol, "bf16", kSmolFolder, "copy"},
    {"QwenGgufMmap", kQwen, "gguf", kQwenGguf, "mmap"},
    {"QwenGgufCopy", kQwen, "gguf", kQwenGguf, "copy"},
    {"QwenFolderMmap", kQwen, "bf16", kQwenFolder, "mmap"},
    {"QwenFolderCopy", kQwen, "bf16", kQwenFolder, "copy"},
};

// The modes are equal bit for bit elsewhere; here copy must only start right.
constexpr size_t kMaxCopyIds = 8;

class RealModelsTest : public ::testing::TestWithParam<RealModel> {};

TEST_P(RealModelsTest, PromptIdsAndGreedyIdsAreTheReferences) {
  const std::string model =
      absl::StrCat(LOWMEM_SOURCE_DIR, "/", GetParam().path);
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << GetParam().path << " is absent; ./dev fetch gets it";
  }
  const JsonValue golden = ReadJsonFile(
      absl::StrCat(LOWMEM_TESTDATA_DIR, "/real/", GetParam().golden));
  const std::vector<JsonValue>& prompts = At(golden, "prompts").items();
  const std::vector<JsonValue>& runs =
      At(At(golden, "weights"), GetParam().weights).items();
  ASSERT_EQ(prompts.size(), runs.size());
  const TempFolder folder;
  for (size_t i = 0; i < prompts.size(); ++i) {
    SCOPED_TRACE(At(prompts[i], "name").string());
    WriteFile(folder.Path("prompt"), At(prompts[i], "text").string());
    std::vector<int64_t> expected = Integers(At(runs[i], "continuation"));
    // What was cut for two logits that lie too close says nothing of the next
    // id.
    bool ends = At(runs[i], "stop").string() == "eos";
    if (std::string(GetParam().mode) == "copy" &&
        expected.size() > kMaxCopyIds) {
      expected.resize(kMaxCopyIds);
      ends = false;
    }
    const SubprocessResult result =
        RunCli({"-m", model, "--mode", GetParam().mode, "--json", "generate",
                "--prompt-file", folder.Path("prompt"), "--temperature", "0",
                "-n", absl::StrCat(expected.size() + (ends ? 1 : 0))});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const JsonValue json = ParseJsonText(result.out);
    EXPECT_EQ(Integers(At(json, "prompt_ids")),
              Integers(At(prompts[i], "ids")));
    EXPECT_EQ(Integers(At(json, "ids")), expected);
    EXPECT_EQ(At(json, "stop_reason").string(), ends ? "eos" : "length");
  }
}

// Logits and hidden states are the same in both modes, bit for bit.
TEST_P(RealModelsTest, TraceIsTheSameBytesInBothModes) {
  const std::string model =
      absl::StrCat(LOWMEM_SOURCE_DIR, "/", GetParam().path);
  if (!std::filesystem::exists(model)) {
    GTEST_SKIP() << GetParam().path << " is absent; ./dev fetch gets it";
  }
  const TempFolder folder;
  for (const char* mode : {"mmap", "copy"}) {
    const SubprocessResult result =
        RunCli({"-m", model, "--mode", mode, "trace", "--prompt-ids",
                "9707,11,358,1079,264,1614", "--out", folder.Path(mode)});
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  const std::string mapped = ReadFile(folder.Path("mmap"));
  EXPECT_GT(mapped.size(), 6u * 49152 * sizeof(float));
  EXPECT_TRUE(mapped == ReadFile(folder.Path("copy")));
}

INSTANTIATE_TEST_SUITE_P(RealModels, RealModelsTest,
                         ::testing::ValuesIn(kModels),
                         [](const ::testing::TestParamInfo<RealModel>& row) {
                           return std::string(row.param.name);
                         });

}  // namespace
}  // namespace lowmem::testing
