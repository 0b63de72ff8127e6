// SPDX-License-Identifier: Apache-2.0
// trace: the tensors of the file are the reference's, whatever the chunk and
// mode.
#include <sys/stat.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"
#include "tests/support/golden_tensors.h"

namespace lowmem::testing {
namespace {

std::vector<float> Floats(const GoldenTensors& file, const std::string& name) {
  const std::string bytes = file.Bytes(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Largest difference of any two values.
float MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

float RootMeanSquare(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return static_cast<float>(std::sqrt(sum / values.size()));
}

class TraceTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::string Trace(const std::vector<std::string>& more) {
    const std::string out = folder_.Path("trace.safetensors");
    std::vector<std::string> args = {"-m", Tiny(GetParam()), "trace", "--out",
                                     out};
    args.insert(args.end(), more.begin(), more.end());
    const SubprocessResult result = RunCli(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    return out;
  }
  const TempFolder folder_;
};

TEST_P(TraceTest, LogitsAndHiddenStatesAreTheReferences) {
  const JsonValue golden = ReadJsonFile(Tiny(GetParam()) + "/golden.json");
  const GoldenTensors reference(Tiny(GetParam()) + "/golden.safetensors");
  ASSERT_FALSE(reference.empty());
  const std::vector<JsonValue>& prompts = At(golden, "prompts").items();
  for (size_t p = 0; p < prompts.size(); ++p) {
    const GoldenTensors trace(Trace({"-p", At(prompts[p], "text").string()}));
    const std::vector<float> logits = Floats(trace, "logits");
    const std::vector<float> expected =
        Floats(reference, absl::StrCat("p", p, ".logits"));
    ASSERT_EQ(logits.size(), expected.size());
    EXPECT_LE(MaxDifference(logits, expected), 2e-4f);
    for (const char* name :
         {"hidden.0", "hidden.1", "hidden.2", "hidden.norm"}) {
      const std::vector<float> hidden_reference =
          Floats(reference, absl::StrCat("p", p, ".", name));
      if (hidden_reference.empty()) continue;  // given for some prompts only
      const std::vector<float> hidden = Floats(trace, name);
      ASSERT_EQ(hidden.size(), hidden_reference.size()) << name;
      EXPECT_LE(MaxDifference(hidden, hidden_reference),
                5e-5f * RootMeanSquare(hidden_reference))
          << name;
    }
  }
}

TEST_P(TraceTest, BytesDoNotDependOnModeChunkOrThreads) {
  const std::vector<std::string> ids = {"--prompt-ids",
                                        "267,220,297,315,266,311,82,258,277"};
  const auto bytes = [&](std::vector<std::string> more) {
    more.insert(more.begin(), ids.begin(), ids.end());
    return ReadFile(Trace(more));
  };
  const std::string whole = bytes({});
  EXPECT_TRUE(bytes({"--mode", "copy"}) == whole);
  EXPECT_TRUE(bytes({"-t", "3"}) == whole);
  for (const char* chunk : {"1", "2", "5"}) {
    EXPECT_TRUE(bytes({"--prefill-chunk", chunk}) == whole) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Trace, TraceTest,
                         ::testing::Values("llama", "llama3", "llama_linear",
                                           "qwen2", "qwen2_sharded"),
                         [](const ::testing::TestParamInfo<const char*>& row) {
                           return std::string(row.param);
                         });

TEST(TraceFileTest, APromptMayBeAFile) {
  const TempFolder folder;
  WriteFile(folder.Path("prompt"), "Hello world");
  for (const std::vector<std::string>& prompt :
       {std::vector<std::string>{"-p", "Hello world"},
        std::vector<std::string>{"--prompt-file", folder.Path("prompt")}}) {
    std::vector<std::string> args = {"-m", Tiny("llama"), "trace", "--out",
                                     folder.Path(prompt[0])};
    args.insert(args.end(), prompt.begin(), prompt.end());
    const SubprocessResult result = RunCli(args);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_TRUE(ReadFile(folder.Path("-p")) ==
              ReadFile(folder.Path("--prompt-file")));
}

TEST(TraceFileTest, NothingIsLeftWhereItCannotBeWritten) {
  EXPECT_TRUE(IsRefusal(RunCli({"-m", Tiny("llama"), "trace", "-p", "a",
                                "--out", "/no/such/folder/t.safetensors"}),
                        3, "/no/such/folder/t.safetensors"));
}

TEST(TraceFileTest, WhatMustNotBeReplacedIsKept) {
  const TempFolder folder;
  const std::string model = CopyTiny("llama", folder);
  ASSERT_EQ(mkfifo(folder.Path("fifo").c_str(), 0600), 0);
  const std::string weights = ReadFile(model + "/model.safetensors");
  for (const std::string& out :
       {model + "/model.safetensors", model + "/config.json",
        model + "/tokenizer.json", folder.Path("fifo"),
        folder.Path(std::string(300, 'n'))}) {
    EXPECT_TRUE(IsRefusal(
        RunCli({"-m", model, "trace", "--prompt-ids", "1,2", "--out", out}), 2,
        out));
  }
  EXPECT_TRUE(ReadFile(model + "/model.safetensors") == weights);
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("fifo", "model"));
}

TEST(TraceFileTest, FileSizeLimitIsCode7AndLeavesNothing) {
  const TempFolder folder;
  EXPECT_TRUE(
      IsRefusal(RunCliLimited("ulimit -f 1",
                              {"-m", Tiny("llama"), "trace", "--prompt-ids",
                               "1,2,3,4,5,6,7,8,9", "--out", folder.Path("t")}),
                7, "ulimit -f"));
  EXPECT_THAT(folder.Names(), ::testing::IsEmpty());
}

TEST(TraceFileTest, JsonNamesTheFileAndThePrompt) {
  const TempFolder folder;
  const SubprocessResult result =
      RunCli({"-m", Tiny("llama"), "--json", "trace", "--prompt-ids", "1,2",
              "--out", folder.Path("t")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const JsonValue json = ParseJsonText(result.out);
  EXPECT_THAT(Integers(At(json, "prompt_ids")), ::testing::ElementsAre(1, 2));
  EXPECT_EQ(At(json, "out").string(), folder.Path("t"));
  EXPECT_THAT(folder.Names(), ::testing::ElementsAre("t"));
}

}  // namespace
}  // namespace lowmem::testing
