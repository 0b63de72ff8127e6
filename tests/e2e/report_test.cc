// SPDX-License-Identifier: Apache-2.0
// info, perplexity and bench: figures for people and, with --json, for
// programs.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

JsonValue Json(std::vector<std::string> args) {
  args.push_back("--json");
  const SubprocessResult result = RunCli(args);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  return ParseJsonText(result.out);
}

uint64_t Uint(const JsonValue& object, const std::string& key) {
  return At(object, key).AsUint64().value_or(0);
}

TEST(InfoTest, JsonHasDimensionsForecastAndLeastBudget) {
  const JsonValue json = Json({"-m", Tiny("llama"), "info"});
  EXPECT_EQ(At(json, "family").string(), "llama");
  EXPECT_EQ(Uint(json, "num_layers"), 2u);
  EXPECT_EQ(Uint(json, "dim"), 96u);
  EXPECT_EQ(Uint(json, "ff_dim"), 160u);
  EXPECT_EQ(Uint(json, "num_heads"), 6u);
  EXPECT_EQ(Uint(json, "num_kv_heads"), 2u);
  EXPECT_EQ(Uint(json, "head_dim"), 16u);
  EXPECT_EQ(Uint(json, "vocab_size"), 320u);
  EXPECT_EQ(json.Find("tensors"), nullptr) << "only with --tensors";
  const JsonValue& forecast = At(json, "forecast");
  const JsonValue& mmap = At(forecast, "mmap");
  const JsonValue& copy = At(forecast, "copy");
  EXPECT_TRUE(At(mmap, "fits").is_null());
  EXPECT_EQ(Uint(mmap, "mapped_weight_bytes"), Uint(json, "model_bytes"));
  EXPECT_GE(Uint(copy, "heap_weight_bytes"), Uint(json, "model_bytes"));
  EXPECT_GT(Uint(copy, "min_required_bytes"),
            Uint(At(forecast, "stream"), "min_required_bytes"));
  EXPECT_EQ(Uint(json, "min_budget_bytes"),
            Uint(At(forecast, "stream"), "min_required_bytes"));
  EXPECT_EQ(Uint(mmap, "context_tokens"), 512u);
}

TEST(InfoTest, BudgetSaysWhichModesFit) {
  const uint64_t needed =
      Uint(At(At(Json({"-m", Tiny("llama"), "info"}), "forecast"), "copy"),
           "min_required_bytes");
  const JsonValue json = Json(
      {"-m", Tiny("llama"), "info", "--ram-budget", absl::StrCat(needed - 1)});
  const JsonValue& copy = At(At(json, "forecast"), "copy");
  EXPECT_EQ(At(copy, "fits").AsBool(), false);
  EXPECT_EQ(Uint(copy, "context_tokens"), 0u);
  EXPECT_EQ(At(At(At(json, "forecast"), "stream"), "fits").AsBool(), true);
}

TEST(InfoTest, BudgetSaysHowManyTokensFitEachMode) {
  const std::vector<std::string> args = {"-m", Tiny("llama"), "info"};
  const uint64_t least = Uint(Json(args), "min_budget_bytes");
  const std::vector<std::string> budget = {"--ram-budget", absl::StrCat(least)};
  std::vector<std::string> limited = args;
  limited.insert(limited.end(), budget.begin(), budget.end());
  EXPECT_EQ(Uint(At(At(Json(limited), "forecast"), "stream"), "context_tokens"),
            16u);
  const SubprocessResult table = RunCli(limited);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("fits   context  --ctx up to\n"));
  EXPECT_THAT(table.out, HasSubstr(" yes        16           16\n"));
  EXPECT_THAT(table.out, HasSubstr("  no         0            0\n"));
  // Of a context that does not fit: the one that would.
  limited.insert(limited.end(), {"--ctx", "64"});
  EXPECT_THAT(RunCli(limited).out, HasSubstr("  no         0           16\n"));
}

TEST(InfoTest, TensorTableIsThatOfTheFile) {
  const JsonValue json =
      Json({"-m", Tiny("qwen2_sharded"), "info", "--tensors"});
  const std::vector<JsonValue>& tensors = At(json, "tensors").items();
  ASSERT_FALSE(tensors.empty());
  bool found = false;
  for (const JsonValue& tensor : tensors) {
    const std::string bytes = ReadFile(At(tensor, "file").string());
    EXPECT_LE(Uint(tensor, "offset") + Uint(tensor, "bytes"), bytes.size());
    if (At(tensor, "name").string() != "model.embed_tokens.weight") continue;
    found = true;
    EXPECT_EQ(At(tensor, "dtype").string(), "BF16");
    EXPECT_THAT(Integers(At(tensor, "shape")), ::testing::ElementsAre(320, 64));
    EXPECT_EQ(Uint(tensor, "bytes"), 320u * 64 * 2);
  }
  EXPECT_TRUE(found);
}

TEST(InfoTest, TableForPeopleNamesEveryTensor) {
  const SubprocessResult result =
      RunCli({"-m", TinyGguf("llama-mixed"), "info", "--tensors"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"family", "llama", "mmap", "copy", "least budget",
                           "token_embd.weight", "output_norm.weight"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
}

class PerplexityTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteFile(file_, "The keeper reads the book by the sea.");
  }
  const TempFolder folder_;
  const std::string file_ = folder_.Path("text.txt");
};

TEST_F(PerplexityTest, PerplexityIsTheExponentialOfNll) {
  const JsonValue json =
      Json({"-m", Tiny("llama"), "perplexity", "--file", file_});
  const double nll = At(json, "nll").AsDouble().value_or(-1);
  EXPECT_GT(nll, 0);
  EXPECT_NEAR(At(json, "perplexity").AsDouble().value_or(-1), std::exp(nll),
              1e-9 * std::exp(nll));
  const SubprocessResult ids =
      RunCli({"-m", Tiny("llama"), "--json", "generate", "--prompt-file", file_,
              "-n", "0"});
  EXPECT_EQ(Uint(json, "tokens") + 1,
            Integers(At(ParseJsonText(ids.out), "prompt_ids")).size())
      << "the first token is context only";
  const JsonValue stats = At(json, "stats");
  EXPECT_GT(Uint(stats, "weight_bytes_read"), 0u);
  EXPECT_GT(Uint(stats, "kv_bytes"), 0u);
  EXPECT_GE(At(stats, "prefill_weight_passes").AsDouble().value_or(0), 1.0);
}

TEST_F(PerplexityTest, ModesAgreeToTheLastBit) {
  const std::vector<std::string> args = {"-m",     Tiny("qwen2"), "perplexity",
                                         "--file", file_,         "--ctx",
                                         "8",      "--stride",    "3"};
  std::vector<std::string> mmap = args, copy = args;
  mmap.insert(mmap.end(), {"--mode", "mmap"});
  copy.insert(copy.end(), {"--mode", "copy", "-t", "1"});
  EXPECT_EQ(At(Json(mmap), "nll").number_text(),
            At(Json(copy), "nll").number_text());
}

TEST_F(PerplexityTest, TextsThatCannotBePredictedAreRefused) {
  WriteFile(file_, "H");
  EXPECT_TRUE(IsRefusal(
      RunCli({"-m", Tiny("llama"), "perplexity", "--file", file_}), 2, "2"));
  EXPECT_TRUE(IsRefusal(
      RunCli({"-m", Tiny("llama"), "perplexity", "--file", "/no/such/text"}), 3,
      "/no/such/text"));
}

TEST(BenchTest, EachModeUnderEachBudgetIsARun) {
  const JsonValue json =
      Json({"-m", Tiny("llama"), "bench", "--modes", "mmap,copy", "--budgets",
            "512M,1G", "-p", "20", "-n", "4", "--cold"});
  const std::vector<JsonValue>& runs = At(json, "runs").items();
  ASSERT_EQ(runs.size(), 4u);
  const uint64_t mib512 = 512u << 20, gib = 1u << 30;
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(At(runs[i], "mode").string(), i % 2 == 0 ? "mmap" : "copy");
    EXPECT_EQ(Uint(runs[i], "ram_budget_bytes"), i < 2 ? mib512 : gib);
    EXPECT_EQ(Uint(runs[i], "prompt_tokens"), 20u);
    EXPECT_EQ(Uint(runs[i], "generated_tokens"), 4u);
    EXPECT_GT(At(runs[i], "load_s").AsDouble().value_or(0), 0);
    EXPECT_GT(At(runs[i], "decode_tokens_per_s").AsDouble().value_or(0), 0);
    EXPECT_GT(Uint(runs[i], "vm_hwm_bytes"), 0u);
  }
}

// Without a group the run is the same but for the limit.
TEST(BenchTest, ABudgetIsALimitWhereTheKernelAllows) {
  const JsonValue json =
      Json({"-m", Tiny("llama"), "bench", "--modes", "mmap,auto", "--budgets",
            "512M", "-p", "20", "-n", "4"});
  const std::vector<JsonValue>& runs = At(json, "runs").items();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(At(runs[0], "mode").string(), "mmap");
  EXPECT_EQ(At(runs[1], "mode").string(), "copy");
  EXPECT_EQ(At(runs[1], "requested_mode").string(), "auto");
  for (const JsonValue& run : runs) {
    EXPECT_EQ(Uint(run, "generated_tokens"), 4u);
    EXPECT_EQ(At(run, "decode_weight_passes").AsDouble(), 1);
    // All but the embedding, of which a token reads one row.
    constexpr uint64_t kEmbeddingBytes = 320 * 96 * 2;
    EXPECT_EQ(Uint(run, "bytes_read_per_token"),
              Uint(run, "model_bytes") - kEmbeddingBytes + 96 * 2);
    if (At(run, "limit_bytes").is_null()) continue;
    EXPECT_EQ(Uint(run, "limit_bytes"), 512u << 20);
    EXPECT_EQ(Uint(run, "oom_kills"), 0u);
    EXPECT_GT(Uint(run, "group_peak_bytes"), 0u);
    EXPECT_LE(Uint(run, "group_peak_bytes"), 512u << 20);
  }
}

TEST(BenchTest, TheWayOfReadingReachesTheRunsThatStream) {
  const JsonValue json = Json({"-m", Tiny("llama"), "--io", "buffered", "bench",
                               "--modes", "stream,copy", "-p", "3", "-n", "2"});
  const std::vector<JsonValue>& runs = At(json, "runs").items();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_THAT(At(runs[0], "io").string(), HasSubstr("buffered"));
  EXPECT_EQ(Uint(runs[1], "generated_tokens"), 2u);
}

TEST(BenchTest, AnAutomaticBudgetIsANumber) {
  const JsonValue json = Json({"-m", Tiny("llama"), "bench", "--modes", "copy",
                               "--budgets", "auto", "-p", "3", "-n", "1"});
  const std::vector<JsonValue>& runs = At(json, "runs").items();
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_GT(Uint(runs[0], "ram_budget_bytes"), 0u);
  EXPECT_TRUE(At(runs[0], "storage_bytes_per_token").is_null())
      << "one token: nothing was decoded";
}

// Hours of measuring would be lost.
TEST(BenchTest, WhereReportsGoIsCheckedBeforeTheFirstRun) {
  const TempFolder folder;
  WriteFile(folder.Path("file"), "");
  const std::string model = CopyTiny("llama", folder);
  const struct {
    std::string out;
    int exit_code;
    const char* part;
  } kCases[] = {{folder.Path("file"), 7, "file"},
                {folder.Path("file/below"), 7, "below"},
                {model, 2, "bench.json"}};
  for (const auto& c : kCases) {
    // A run that is refused would end with 6.
    EXPECT_TRUE(IsRefusal(
        RunCli({"-m", model, "bench", "--budgets", "1", "--out", c.out}),
        c.exit_code, c.part))
        << c.out;
  }
}

TEST(BenchTest, TableAndReportsSayTheSame) {
  const TempFolder folder;
  const std::string reports = folder.Path("reports");
  const SubprocessResult result =
      RunCli({"-m", Tiny("llama"), "bench", "--modes", "copy", "-p", "3", "-n",
              "2", "--repeat", "2", "--out", reports});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* heading : {"mode", "anonymous", "file-backed", "peak",
                              "load", "first token", "prefill", "decode"}) {
    EXPECT_THAT(result.out, HasSubstr(heading));
  }
  EXPECT_EQ(ReadFile(reports + "/bench.txt"), result.out);
  EXPECT_EQ(At(ReadJsonFile(reports + "/bench.json"), "runs").items().size(),
            2u);
}

TEST(BenchTest, ARefusedRunIsReportedAndDecidesTheExitCode) {
  const SubprocessResult result =
      RunCli({"-m", Tiny("llama"), "--json", "bench", "--modes", "copy",
              "--budgets", "1,1G", "-p", "3", "-n", "2"});
  EXPECT_EQ(result.exit_code, 6);
  const JsonValue json = ParseJsonText(result.out);
  const std::vector<JsonValue>& runs = At(json, "runs").items();
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_FALSE(At(runs[0], "error").string().empty());
  EXPECT_EQ(At(runs[0], "error").string().find("lowmem-run:"),
            std::string::npos);
  EXPECT_EQ(Uint(runs[1], "generated_tokens"), 2u);
  EXPECT_TRUE(IsRefusal(
      RunCli({"-m", "/no/such/model", "bench", "--modes", "mmap", "--cold"}), 3,
      "/no/such/model"));
}

}  // namespace
}  // namespace lowmem::testing
