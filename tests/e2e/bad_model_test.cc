// SPDX-License-Identifier: Apache-2.0
// Models that are absent, damaged, contradictory or not supported, and prompts
// that cannot be taken: one clear line and the right exit code each, in every
// mode.
#include <filesystem>
#include <functional>

#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

namespace fs = std::filesystem;

struct BadModel {
  const char* name;
  const char* tiny;
  std::function<void(const std::string& model)> damage;
  int exit_code;
  const char* part;
  friend void PrintTo(const BadModel& row, std::ostream* os) {
    *os << row.name;
  }
};

void Replace(const std::string& path, const std::string& from,
             const std::string& to) {
  ReplaceInFile(path, from, to);
}

// The header of a safetensors file is changed in place: same length, other
// meaning.
void ReplaceInHeader(const std::string& model, const std::string& from,
                     const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  ReplaceInFile(model + "/model.safetensors", from, to);
}

void CutFile(const std::string& path, uint64_t num_bytes) {
  fs::resize_file(path, fs::file_size(path) - num_bytes);
}

const BadModel kBadModels[] = {
    {"NoConfig", "llama",
     [](const std::string& m) { fs::remove(m + "/config.json"); }, 3,
     "config.json"},
    {"NoTokenizer", "llama",
     [](const std::string& m) { fs::remove(m + "/tokenizer.json"); }, 3,
     "tokenizer.json"},
    {"NoWeights", "llama",
     [](const std::string& m) { fs::remove(m + "/model.safetensors"); }, 3,
     "model"},
    {"ShardAbsent", "qwen2_sharded",
     [](const std::string& m) {
       fs::remove(m + "/model-00002-of-00003.safetensors");
     },
     3, "model-00002-of-00003.safetensors"},
    {"ShardTruncated", "qwen2_sharded",
     [](const std::string& m) {
       CutFile(m + "/model-00002-of-00003.safetensors", 1);
     },
     4, "model-00002-of-00003.safetensors"},
    {"FileEmpty", "llama",
     [](const std::string& m) { WriteFile(m + "/model.safetensors", ""); }, 4,
     "model.safetensors"},
    {"FileTruncated", "llama",
     [](const std::string& m) { CutFile(m + "/model.safetensors", 1000); }, 4,
     "model.safetensors"},
    {"HeaderNoJson", "llama",
     [](const std::string& m) {
       std::string text = ReadFile(m + "/model.safetensors");
       text[8] = 'x';
       WriteFile(m + "/model.safetensors", text);
     },
     4, "model.safetensors"},
    {"TensorOfWrongShape", "llama",
     [](const std::string& m) {
       ReplaceInHeader(
           m, "\"model.norm.weight\":{\"dtype\":\"BF16\",\"shape\":[96]",
           "\"model.norm.weight\":{\"dtype\":\"F32\" ,\"shape\":[48]");
     },
     4, "model.norm.weight"},
    {"TensorAbsent", "llama",
     [](const std::string& m) {
       ReplaceInHeader(m, "\"model.norm.weight\"", "\"model.morn.weight\"");
     },
     4, "model.norm.weight"},
    {"UnknownDtype", "llama",
     [](const std::string& m) {
       ReplaceInHeader(m, "\"model.norm.weight\":{\"dtype\":\"BF16\"",
                       "\"model.norm.weight\":{\"dtype\":\"BF17\"");
     },
     5, "BF17"},
    {"ConfigContradictsFile", "llama",
     [](const std::string& m) {
       Replace(m + "/config.json", "\"hidden_size\": 96",
               "\"hidden_size\": 192");
     },
     4, "expected"},
    {"ConfigHasMoreLayers", "llama",
     [](const std::string& m) {
       Replace(m + "/config.json", "\"num_hidden_layers\": 2",
               "\"num_hidden_layers\": 3");
     },
     4, "model.layers.2"},
    {"ConfigNoJson", "llama",
     [](const std::string& m) { WriteFile(m + "/config.json", "{"); }, 4,
     "config.json"},
    {"ConfigValueAbsent", "llama",
     [](const std::string& m) {
       Replace(m + "/config.json", "\"num_attention_heads\"", "\"num_heads\"");
     },
     4, "num_attention_heads"},
    {"ConfigHeadsZero", "llama",
     [](const std::string& m) {
       Replace(m + "/config.json", "\"num_attention_heads\": 6",
               "\"num_attention_heads\": 0");
     },
     4, "num_attention_heads"},
    {"UnknownArchitecture", "llama",
     [](const std::string& m) {
       Replace(m + "/config.json", "\"LlamaForCausalLM\"",
               "\"MambaForCausalLM\"");
       Replace(m + "/config.json", "\"model_type\": \"llama\"",
               "\"model_type\": \"mamba\"");
     },
     5, "MambaForCausalLM"},
    {"TokenizerNoJson", "llama",
     [](const std::string& m) { WriteFile(m + "/tokenizer.json", "[1"); }, 4,
     "tokenizer.json"},
    {"ShardOutsideTheFolder", "qwen2_sharded",
     [](const std::string& m) {
       std::string text = ReadFile(m + "/model.safetensors.index.json");
       const std::string from = "model-00003-of-00003.safetensors";
       text.replace(text.find(from), from.size(),
                    "../../../../../../etc/passwd");
       WriteFile(m + "/model.safetensors.index.json", text);
     },
     4, "index.json"},
};

class BadModelTest : public ::testing::TestWithParam<BadModel> {};

TEST_P(BadModelTest, IsRefusedInOneLine) {
  const TempFolder folder;
  const std::string model = CopyTiny(GetParam().tiny, folder);
  GetParam().damage(model);
  for (const char* mode : {"mmap", "copy"}) {
    EXPECT_TRUE(IsRefusal(
        RunCli({"-m", model, "--mode", mode, "generate", "-p", "a", "-n", "1"}),
        GetParam().exit_code, GetParam().part));
  }
}

INSTANTIATE_TEST_SUITE_P(BadModel, BadModelTest,
                         ::testing::ValuesIn(kBadModels),
                         [](const ::testing::TestParamInfo<BadModel>& row) {
                           return row.param.name;
                         });

TEST(BadModelTest, PathAbsent) {
  for (const char* command : {"info", "tokenize"}) {
    EXPECT_TRUE(IsRefusal(RunCli({"-m", "/no/such/model", command}), 3,
                          "/no/such/model"));
  }
  EXPECT_TRUE(IsRefusal(RunCli({"convert", "/no/such/model", "/tmp/never"}), 3,
                        "/no/such/model"));
}

TEST(BadModelTest, FolderWithoutAnything) {
  const TempFolder folder;
  EXPECT_TRUE(
      IsRefusal(RunCli({"-m", folder.path(), "info"}), 3, folder.path()));
}

TEST(BadModelTest, DeviceIsNoModel) {
  const SubprocessResult result = RunCli({"-m", "/dev/zero", "info"});
  EXPECT_TRUE(IsRefusal(result, 4, "/dev/zero"));
}

TEST(BadModelTest, GgufTruncatedAnywhere) {
  const TempFolder folder;
  const std::string whole = ReadFile(TinyGguf("llama-q4_0"));
  for (const size_t size : {0, 3, 4, 7, 8, 23, 24, 100, 4000, 20000}) {
    WriteFile(folder.Path("cut.gguf"), whole.substr(0, size));
    EXPECT_TRUE(IsRefusal(RunCli({"-m", folder.Path("cut.gguf"), "generate",
                                  "-p", "a", "-n", "1"}),
                          4, "cut.gguf"))
        << size;
  }
  WriteFile(folder.Path("cut.gguf"), whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(IsRefusal(RunCli({"-m", folder.Path("cut.gguf"), "info"}), 4,
                        "cut.gguf"));
}

// A name from a file must not reach the terminal as it is.
TEST(BadModelTest, EscapeSequencesInAFileAreShownAsText) {
  const TempFolder folder;
  const std::string model = CopyTiny("llama", folder);
  ReplaceInFile(model + "/config.json", "\"LlamaForCausalLM\"",
                "\"\\u001b[2J\\nForCausalLM\"");
  ReplaceInFile(model + "/config.json", "\"model_type\": \"llama\"",
                "\"model_type\": \"\\u001b[2J\\n\\u202e\"");
  const SubprocessResult result = RunCli({"-m", model, "info"});
  EXPECT_TRUE(IsRefusal(result, 5, "config.json"));
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
}

struct BadPrompt {
  const char* name;
  std::vector<std::string> args;
  int exit_code;
  const char* part;
  friend void PrintTo(const BadPrompt& row, std::ostream* os) {
    *os << row.name;
  }
};

const BadPrompt kBadPrompts[] = {
    {"Empty", {"-p", ""}, 2, "empty"},
    {"IdOutsideTheVocabulary", {"--prompt-ids", "1,320"}, 2, "320"},
    {"LongerThanTheContext", {"--ctx", "3", "--prompt-ids", "1,2,3,4"}, 2, "3"},
    {"NotUtf8", {"-p", "a\xff"}, 2, "UTF-8"},
    {"FileAbsent", {"--prompt-file", "/no/such/prompt"}, 3, "/no/such/prompt"},
    {"FileIsAFolder", {"--prompt-file", "/"}, 2, "/"},
    {"StopTextTooLong",
     {"-p", "a", "--stop", std::string(5000, 'x')},
     2,
     "--stop"},
};

class BadPromptTest : public ::testing::TestWithParam<BadPrompt> {};

TEST_P(BadPromptTest, IsRefusedInOneLine) {
  std::vector<std::string> args = {"-m", Tiny("llama"), "generate", "-n", "1"};
  args.insert(args.end(), GetParam().args.begin(), GetParam().args.end());
  const SubprocessResult result = RunCli(args);
  EXPECT_TRUE(IsRefusal(result, GetParam().exit_code, GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(BadModel, BadPromptTest,
                         ::testing::ValuesIn(kBadPrompts),
                         [](const ::testing::TestParamInfo<BadPrompt>& row) {
                           return row.param.name;
                         });

}  // namespace
}  // namespace lowmem::testing
