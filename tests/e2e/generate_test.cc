// SPDX-License-Identifier: Apache-2.0
// generate: golden ids and text of the tiny models, in every mode; what stops
// it; what is on stdout and what is not.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> GreedyJson(const std::string& model,
                                    const std::string& mode) {
  return {"--json", "-m",       model,           "--mode",
          mode,     "generate", "--temperature", "0"};
}

SubprocessResult Generate(std::vector<std::string> args,
                          const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return RunCli(args);
}

struct GoldenModel {
  std::string name;
  std::string path;
  std::string golden;
  friend void PrintTo(const GoldenModel& row, std::ostream* os) {
    *os << row.name;
  }
};

std::vector<GoldenModel> GoldenModels() {
  std::vector<GoldenModel> models;
  for (const char* name :
       {"llama", "llama3", "llama3_rope_parameters", "llama_linear", "qwen2",
        "qwen2_sharded", "qwen2_sharded_scattered"}) {
    models.push_back({name, Tiny(name), Tiny(name) + "/golden.json"});
  }
  for (const char* name : {"llama-f16", "llama-mixed", "llama-q4_0",
                           "llama3-bf16", "qwen2-f32", "qwen2-q8_0"}) {
    std::string test_name = absl::StrCat("gguf_", name);
    std::replace(test_name.begin(), test_name.end(), '-', '_');
    models.push_back(
        {test_name, TinyGguf(name),
         absl::StrCat(LOWMEM_TESTDATA_DIR "/tiny-gguf/", name, ".json")});
  }
  return models;
}

class GoldenTest : public ::testing::TestWithParam<GoldenModel> {};

// "clear_steps" of a golden file: how many steps do not hang on rounding.
TEST_P(GoldenTest, GreedyIdsAndPromptIdsAreTheReferences) {
  const JsonValue golden = ReadJsonFile(GetParam().golden);
  for (const JsonValue& prompt : At(golden, "prompts").items()) {
    const std::vector<int64_t> prompt_ids = Integers(At(prompt, "ids"));
    std::vector<int64_t> greedy = Integers(At(prompt, "greedy"));
    if (const JsonValue* clear = prompt.Find("clear_steps")) {
      greedy.resize(std::min<size_t>(greedy.size(), *clear->AsUint64()));
    }
    for (const char* mode : {"mmap", "copy"}) {
      const SubprocessResult result =
          Generate(GreedyJson(GetParam().path, mode),
                   {"-p", At(prompt, "text").string(), "--ignore-eos", "-n",
                    absl::StrCat(greedy.size())});
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const JsonValue json = ParseJsonText(result.out);
      EXPECT_EQ(Integers(At(json, "prompt_ids")), prompt_ids);
      EXPECT_EQ(Integers(At(json, "ids")), greedy);
      EXPECT_EQ(At(json, "stop_reason").string(), "length");
      if (const JsonValue* text = prompt.Find("greedy_text")) {
        EXPECT_EQ(At(json, "text").string(), text->string());
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Generate, GoldenTest,
                         ::testing::ValuesIn(GoldenModels()),
                         [](const ::testing::TestParamInfo<GoldenModel>& row) {
                           return row.param.name;
                         });

class GenerateTest : public ::testing::Test {
 protected:
  // The first prompt of the tiny llama; its golden continuation begins 100,
  // 286.
  const std::string prompt_ = "The keeper reads the b";
  const std::vector<std::string> greedy_ = {
      "-m",    Tiny("llama"),   "generate", "-p",
      prompt_, "--temperature", "0",        "-n"};

  std::string Text(int num_tokens, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = greedy_;
    args.push_back(absl::StrCat(num_tokens));
    args.insert(args.end(), more.begin(), more.end());
    const SubprocessResult result = RunCli(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
  JsonValue Json(int num_tokens, std::vector<std::string> more = {}) {
    more.push_back("--json");
    return ParseJsonText(Text(num_tokens, more));
  }
};

TEST_F(GenerateTest, StdoutIsTheContinuationAndANewline) {
  EXPECT_EQ(Text(24), At(Json(24), "text").string() + "\n");
}

TEST_F(GenerateTest, JsonHasTheFieldsOfTheContract) {
  const JsonValue json = Json(2);
  for (const char* key :
       {"prompt_ids", "ids", "text", "stop_reason", "stats"}) {
    At(json, key);
  }
  EXPECT_EQ(json.members().size(), 5u);
  const JsonValue& stats = At(json, "stats");
  for (const char* key : {"mode",
                          "threads",
                          "ram_budget_bytes",
                          "model_bytes",
                          "resident_weight_bytes",
                          "arena_bytes",
                          "kv_bytes",
                          "vm_hwm_bytes",
                          "rss_anon_bytes",
                          "rss_file_bytes",
                          "cgroup_peak_bytes",
                          "page_cache_bytes",
                          "major_faults",
                          "storage_read_bytes",
                          "weight_bytes_read",
                          "prompt_tokens",
                          "generated_tokens",
                          "prefill_weight_passes",
                          "decode_weight_passes",
                          "load_s",
                          "time_to_first_token_s",
                          "prefill_tokens_per_s",
                          "decode_tokens_per_s"}) {
    At(stats, key);
  }
  EXPECT_EQ(stats.members().size(), 25u);
  EXPECT_TRUE(At(stats, "ram_budget_bytes").is_null());
  EXPECT_EQ(At(stats, "prompt_tokens").AsUint64(), 9u);
  EXPECT_EQ(At(stats, "generated_tokens").AsUint64(), 2u);
}

TEST_F(GenerateTest, KeysAndValuesAreKeptAsAskedFor) {
  // A page of 16 positions, 2 layers, 2 heads of 16, keys and values.
  const std::pair<const char*, uint64_t> cases[] = {
      {"f32", 16 * 8 * 64}, {"bf16", 16 * 8 * 32}, {"q8", 16 * 8 * 18}};
  for (const auto& [kv_dtype, kv_bytes] : cases) {
    const JsonValue json = Json(2, {"--kv", kv_dtype});
    EXPECT_EQ(At(At(json, "stats"), "kv_bytes").AsUint64(), kv_bytes)
        << kv_dtype;
    EXPECT_EQ(Integers(At(json, "ids")).size(), 2u);
  }
  EXPECT_EQ(Text(24, {"--kv", "f32"}), Text(24));
}

TEST_F(GenerateTest, StatsGoToStderr) {
  std::vector<std::string> args = greedy_;
  args.insert(args.end(), {"3", "--stats"});
  const SubprocessResult result = RunCli(args);
  EXPECT_EQ(result.out, Text(3));
  for (const char* part : {"mode", "mmap", "arena", "decode"}) {
    EXPECT_THAT(result.err, HasSubstr(part));
  }
  args.push_back("-q");
  EXPECT_EQ(RunCli(args).err, "");
}

TEST_F(GenerateTest, ThreadsAndChunksDoNotChangeTheText) {
  const std::string text = Text(24);
  EXPECT_EQ(Text(24, {"-t", "1"}), text);
  EXPECT_EQ(Text(24, {"-t", "3"}), text);
  for (const char* chunk : {"1", "2", "4", "100"}) {
    EXPECT_EQ(Text(24, {"--prefill-chunk", chunk}), text) << chunk;
  }
}

TEST_F(GenerateTest, PromptComesFromAFileOrStdinToTheLastByte) {
  const TempFolder folder;
  WriteFile(folder.Path("prompt.txt"), prompt_ + "\n");
  const std::vector<std::string> base = {"-m",       Tiny("llama"), "--json",
                                         "generate", "-n",          "2"};
  const auto ids = [&](std::vector<std::string> args, const std::string& in) {
    args.insert(args.begin(), base.begin(), base.end());
    const SubprocessResult result = RunCli(args, in);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return Integers(At(ParseJsonText(result.out), "prompt_ids"));
  };
  const std::vector<int64_t> expected = ids({"-p", prompt_ + "\n"}, "");
  EXPECT_EQ(ids({"--prompt-file", folder.Path("prompt.txt")}, ""), expected);
  EXPECT_EQ(ids({"--prompt-file", "-"}, prompt_ + "\n"), expected);
  EXPECT_NE(ids({"-p", prompt_}, ""), expected);
  EXPECT_EQ(ids({"--prompt-ids", CommaSeparated(expected)}, ""), expected);
}

TEST_F(GenerateTest, SpecialTokensInThePromptAreRecognised) {
  const SubprocessResult result =
      RunCli({"-m", Tiny("llama"), "--json", "generate", "-n", "1", "-p",
              "<|im_start|>a"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(Integers(At(ParseJsonText(result.out), "prompt_ids")).size(), 2u);
}

TEST_F(GenerateTest, StopTextEndsBeforeIt) {
  const std::string text = At(Json(24), "text").string();
  // Across a border of tokens: the golden continuation has "... we" in it.
  const std::string stop = " we";
  ASSERT_THAT(text, HasSubstr(stop));
  const JsonValue json = Json(24, {"--stop", "never seen", "--stop", stop});
  EXPECT_EQ(At(json, "text").string(), text.substr(0, text.find(stop)));
  EXPECT_EQ(At(json, "stop_reason").string(), "stop");
  EXPECT_EQ(Text(24, {"--stop", stop}), text.substr(0, text.find(stop)) + "\n");
}

TEST_F(GenerateTest, StopTextWithBracketsIsOneText) {
  EXPECT_EQ(Text(4, {"--stop", "[a,b]", "--stop", "{}"}), Text(4));
}

TEST_F(GenerateTest, ContextEndsAnUnboundedGeneration) {
  const JsonValue json = Json(-1, {"--ctx", "16", "--ignore-eos"});
  EXPECT_EQ(At(json, "stop_reason").string(), "context");
  EXPECT_EQ(Integers(At(json, "ids")).size() + 9, 16u);
}

TEST_F(GenerateTest, EndTokenEndsUnlessIgnored) {
  // What the model says fourth is made its end token.
  const TempFolder folder;
  const std::string model = CopyTiny("llama", folder);
  const std::vector<int64_t> ids = Integers(At(Json(6), "ids"));
  const std::vector<std::string> args = {
      "-m",    model,           "--json", "generate", "-p",
      prompt_, "--temperature", "0",      "-n",       "6"};
  WriteFile(model + "/generation_config.json",
            absl::StrCat("{\"eos_token_id\": [1, ", ids[2], "]}"));
  const JsonValue ended = ParseJsonText(RunCli(args).out);
  EXPECT_EQ(At(ended, "stop_reason").string(), "eos");
  EXPECT_EQ(Integers(At(ended, "ids")),
            std::vector<int64_t>(ids.begin(), ids.begin() + 2));
  std::vector<std::string> ignoring = args;
  ignoring.push_back("--ignore-eos");
  EXPECT_EQ(Integers(At(ParseJsonText(RunCli(ignoring).out), "ids")), ids);
}

TEST_F(GenerateTest, TheSeedDecidesWhatIsSampled) {
  const std::vector<std::string> args = {
      "-m", Tiny("qwen2"),   "generate", "-p",      "The", "-n",
      "24", "--temperature", "1.5",      "--top-k", "0",   "--top-p",
      "1",  "--seed"};
  const auto sample = [&](const std::string& seed, const std::string& mode) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {seed, "--mode", mode});
    return RunCli(all).out;
  };
  EXPECT_EQ(sample("7", "mmap"), sample("7", "copy"));
  EXPECT_NE(sample("7", "mmap"), sample("8", "mmap"));
}

TEST_F(GenerateTest, PenaltyFlagsApplyToGreedyChoiceToo) {
  EXPECT_NE(Text(24, {"--repetition-penalty", "1.8"}), Text(24));
  EXPECT_NE(Text(24, {"--frequency-penalty", "50"}), Text(24));
}

}  // namespace
}  // namespace lowmem::testing
