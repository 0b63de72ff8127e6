// SPDX-License-Identifier: Apache-2.0
// A budget covers text, too: prompts, lines and stop texts far longer than what
// fits end with an answer or a refusal, in a memory group of exactly the
// budget.
#include "absl/strings/str_cat.h"
#include "storage/base/json_writer.h"
#include "storage/base/units.h"
#include "tests/e2e/budget_fixture.h"
#include "tests/e2e/grown_model.h"

namespace lowmem::testing {
namespace {

std::string Repeated(const std::string& unit, size_t num_bytes) {
  std::string text;
  text.reserve(num_bytes + unit.size());
  while (text.size() < num_bytes) text += unit;
  return text;
}

std::string Words(size_t num_bytes) {
  return Repeated("Why is the sky blue? ", num_bytes);
}

std::string Line(const std::string& text) {
  JsonWriter json;
  json.BeginObject().Key("text").String(text).EndObject();
  return absl::StrCat(json.text(), "\n");
}

std::vector<std::string> StopTexts() {
  std::vector<std::string> args = {"generate", "-p", "Hi", "-n", "2"};
  for (int i = 0; i < 64; ++i) {
    args.push_back("--stop");
    args.push_back(absl::StrCat("x", i, std::string(4000, 'y')));
  }
  return args;
}

constexpr char kTooLong[] =
    "prompt is longer than the context; expected at most 100000 tokens, got "
    "more";
constexpr char kFile[] = "FILE";  // stands for the file with the text

struct TextCase {
  const char* name;
  std::vector<std::string> args;
  std::string text;
  int exit_code;
  const char* message;  // of a refusal, else a part of stdout
  friend void PrintTo(const TextCase& row, std::ostream* os) {
    *os << row.name;
  }
};

std::vector<TextCase> Cases() {
  const std::vector<std::string> generate = {"generate", "--prompt-file", kFile,
                                             "-n", "2"};
  const std::vector<std::string> generate_stdin = {"generate", "--prompt-file",
                                                   "-", "-n", "2"};
  const std::vector<std::string> perplexity = {"perplexity", "--file", kFile,
                                               "--ctx", "16"};
  return {
      {"PromptOfWords", generate, Words(kMiB), 2, kTooLong},
      // No token is so long that the word could fit the context.
      {"PromptOfOneLetter", generate, std::string(kMiB, 'a'), 2, kTooLong},
      {"PromptOfOneLetterThatMayFit", generate, std::string(300 * kKiB, 'a'), 6,
       "for text on top of "},
      {"PromptOfTheWholeBudget", generate, Words(16 * kMiB), 6,
       "largest item: text 16.0 MiB"},
      {"PromptFromAPipe", generate_stdin, Words(kMiB), 2, kTooLong},
      {"PipeOfTheWholeBudget", generate_stdin, Words(16 * kMiB), 6,
       "stdin: does not fit the memory budget"},
      {"StopTexts", StopTexts(), "", 0, "\n"},
      {"PerplexityOfWords", perplexity, Words(2 * kMiB), 6,
       "for text on top of "},
      {"PerplexityOfFewWords", perplexity, Words(200), 0, "perplexity "},
      {"TokenizeLinesOfWords",
       {"tokenize"},
       Line(Words(600 * kKiB)) + Line(Words(700 * kKiB)),
       0,
       "]}\n{\"ids\":["},
      {"TokenizeLineOfOneLetter",
       {"tokenize"},
       Line(std::string(kMiB, 'a')) + Line("a"),
       0,
       "for text on top of "},
      {"TokenizeLineOfTheWholeBudget",
       {"tokenize"},
       Line(Words(16 * kMiB)) + Line("a"),
       0,
       "{\"error\":\"line too long for the memory budget; expected at most "},
      {"TokenizeLineOfManyValues",
       {"tokenize"},
       absl::StrCat("{\"text\":\"a\",\"z\":[", Repeated("1,", kMiB), "1]}\n"),
       0,
       "for text on top of "},
  };
}

class TextBudgetTest : public ::testing::TestWithParam<TextCase> {
 protected:
  static void SetUpTestSuite() { model_ = new GrownModel(); }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  static GrownModel* model_;
};
GrownModel* TextBudgetTest::model_ = nullptr;

TEST_P(TextBudgetTest, ThePeakIsWithinTheBudget) {
  const TextCase& row = GetParam();
  std::string reason;
  if (!CanLimit(&reason)) GTEST_SKIP() << reason;
  const TempFolder folder;
  LaunchOptions launch;
  launch.command.program = Cli();
  const uint64_t budget = LeastBudget(model_->path(), "stream") + 3 * kMiB;
  launch.command.args = {"-q", "-m", model_->path(), "--ram-budget",
                         absl::StrCat(budget)};
  for (const std::string& arg : row.args) {
    if (arg == kFile) WriteFile(folder.Path("text"), row.text);
    launch.command.args.push_back(arg == kFile ? folder.Path("text") : arg);
  }
  launch.command.stdin_text = row.text;
  const auto group = cli::MemoryGroup::Create(budget);
  ASSERT_TRUE(group.ok()) << group.status();
  launch.groups.push_back((*group)->processes_path());
  const LaunchResult result = RunLaunched(launch);
  EXPECT_EQ((*group)->Usage().num_oom_kills, 0u);
  EXPECT_LE(result.peak_bytes, budget);
  if (row.exit_code == 0) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find(row.message), std::string::npos)
        << result.out.substr(0, 500);
  } else {
    EXPECT_TRUE(IsRefusal(result, row.exit_code, row.message));
  }
}

INSTANTIATE_TEST_SUITE_P(Texts, TextBudgetTest, ::testing::ValuesIn(Cases()),
                         [](const auto& row) {
                           return std::string(row.param.name);
                         });

}  // namespace
}  // namespace lowmem::testing
