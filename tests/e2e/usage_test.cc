// SPDX-License-Identifier: Apache-2.0
// Arguments: where options may stand, what is refused before anything is
// opened, and what help and version cost.
#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

using ::testing::HasSubstr;

struct WrongUsage {
  const char* name;
  std::vector<std::string> args;
  int exit_code;
  const char* part;
  friend void PrintTo(const WrongUsage& row, std::ostream* os) {
    *os << row.name;
  }
};

const WrongUsage kWrongUsage[] = {
    {"NoCommand", {}, 2, "no command; expected one of generate, info"},
    {"UnknownCommand", {"dance"}, 2, "unknown command 'dance'"},
    {"CommandOfALaterVersion",
     {"chat", "-m", "x"},
     2,
     "unknown command 'chat'"},
    {"EmptyArgument", {""}, 2, "unknown command ''"},
    {"UnknownOption", {"--wat", "info"}, 2, "unknown option '--wat'"},
    {"UnknownOptionOfCommand", {"info", "--wat"}, 2, "unknown option '--wat'"},
    {"TwoCommands", {"info", "trace"}, 2, "unexpected argument 'trace'"},
    {"EscapeSequenceInArgument",
     {"\x1b[31m\nx"},
     2,
     "unknown command '\\x1b[31m\\x0ax'"},
    {"NoModel", {"info"}, 2, "no model; give -m MODEL"},
    {"EmptyModel", {"-m", "", "info"}, 2, "expected MODEL"},
    {"ModelTwice", {"-m", "a", "info", "-m", "b"}, 2, "--model"},
    {"ValueMissing", {"info", "-m"}, 2, "--model"},
    {"ModelForConvert", {"-m", "x", "convert", "a", "b"}, 2, "first argument"},
    {"ConvertWithoutOut", {"convert", "a"}, 2, "OUT is required"},
    {"NoPrompt",
     {"-m", "x", "generate"},
     2,
     "expected one of -p, --prompt-file"},
    {"TwoPrompts",
     {"-m", "x", "generate", "-p", "a", "--prompt-ids", "1"},
     2,
     "got 2"},
    {"TraceWithoutOut",
     {"-m", "x", "trace", "-p", "a"},
     2,
     "--out is required"},
    {"PerplexityWithoutFile",
     {"-m", "x", "perplexity"},
     2,
     "--file is required"},
    {"UnknownMode", {"--mode", "fast", "-m", "x", "info"}, 2, "got 'fast'"},
    {"UnknownIo", {"--io", "x", "-m", "x", "info"}, 2, "expected auto, uring"},
    {"UnknownKv", {"--kv", "x", "-m", "x", "info"}, 2, "expected f32, bf16"},
    {"BudgetZero", {"--ram-budget", "0", "-m", "x", "info"}, 2, "--ram-budget"},
    {"BudgetNegative",
     {"--ram-budget", "-1", "-m", "x", "info"},
     2,
     "--ram-budget"},
    {"BudgetNoNumber",
     {"--ram-budget", "big", "-m", "x", "info"},
     2,
     "--ram-budget"},
    {"BudgetEmpty", {"--ram-budget", "", "-m", "x", "info"}, 2, "--ram-budget"},
    {"BudgetTooLarge",
     {"--ram-budget", "99999999999G", "-m", "x", "info"},
     2,
     "--ram-budget"},
    {"ThreadsZero", {"-t", "0", "-m", "x", "info"}, 2, "an integer from 1"},
    {"ThreadsFraction", {"-t", "1.5", "-m", "x", "info"}, 2, "got '1.5'"},
    {"CountHexadecimal",
     {"-m", "x", "generate", "-p", "a", "-n", "0x10"},
     2,
     "got '0x10'"},
    {"CountBelowMinusOne",
     {"-m", "x", "generate", "-p", "a", "-n", "-2"},
     2,
     "got '-2'"},
    {"TemperatureNegative",
     {"-m", "x", "generate", "-p", "a", "--temperature", "-1"},
     2,
     "--temperature"},
    {"TemperatureNan",
     {"-m", "x", "generate", "-p", "a", "--temperature", "nan"},
     2,
     "got 'nan'"},
    {"TopPAboveOne",
     {"-m", "x", "generate", "-p", "a", "--top-p", "1.01"},
     2,
     "--top-p"},
    {"SeedNegative",
     {"-m", "x", "generate", "-p", "a", "--seed", "-1"},
     2,
     "--seed"},
    {"StopEmpty",
     {"-m", "x", "generate", "-p", "a", "--stop", ""},
     2,
     "--stop"},
    {"ContextZero",
     {"-m", "x", "generate", "-p", "a", "--ctx", "0"},
     2,
     "--ctx"},
    {"IdsEmpty",
     {"-m", "x", "generate", "--prompt-ids", ""},
     2,
     "--prompt-ids"},
    {"IdsWithHole",
     {"-m", "x", "generate", "--prompt-ids", "1,,2"},
     2,
     "got ''"},
    {"IdsNegative",
     {"-m", "x", "generate", "--prompt-ids", "-1"},
     2,
     "got '-1'"},
    {"IdsTooLarge",
     {"-m", "x", "generate", "--prompt-ids", "99999999999"},
     2,
     "--prompt-ids"},
    {"BenchWithModeOfOthers",
     {"-m", "x", "--mode", "mmap", "bench"},
     2,
     "--modes and --budgets"},
    {"IoForAMapping",
     {"--io", "pread", "--mode", "mmap", "-m", "x", "info"},
     2,
     "--io is how mode stream reads; it does not go with --mode mmap"},
    {"IoForACopy",
     {"-m", "x", "generate", "-p", "a", "--mode", "copy", "--io", "uring"},
     2,
     "does not go with --mode copy"},
    {"IoForABenchThatDoesNotStream",
     {"-m", "x", "--io", "pread", "bench", "--modes", "mmap,copy"},
     2,
     "expected stream or auto among --modes"},
    {"IoOfModeAuto",
     {"-m", "no-model", "--io", "pread", "info"},
     3,
     "no-model"},
    {"AutoIoForAMapping",
     {"-m", "no-model", "--io", "auto", "--mode", "mmap", "info"},
     3,
     "no-model"},
    {"PlanWithoutABudget", {"-m", "x", "info", "--plan"}, 2, "--ram-budget"},
};

class WrongUsageTest : public ::testing::TestWithParam<WrongUsage> {};

TEST_P(WrongUsageTest, IsRefusedInOneLine) {
  EXPECT_TRUE(IsRefusal(RunCli(GetParam().args), GetParam().exit_code,
                        GetParam().part));
}

INSTANTIATE_TEST_SUITE_P(Usage, WrongUsageTest,
                         ::testing::ValuesIn(kWrongUsage),
                         [](const ::testing::TestParamInfo<WrongUsage>& row) {
                           return row.param.name;
                         });

TEST(UsageTest, WrongUsagePointsToTheHelpOfTheCommand) {
  EXPECT_THAT(RunCli({"generate", "-n", "x"}).err,
              HasSubstr("see lowmem-run generate --help"));
  EXPECT_THAT(RunCli({"--wat"}).err, HasSubstr("see lowmem-run --help"));
}

TEST(UsageTest, OptionsStandBeforeOrAfterTheCommand) {
  const std::vector<std::string> global = {
      "-m", Tiny("llama"), "--mode", "copy", "--json", "-t", "1", "-q"};
  const std::vector<std::string> command = {"generate", "--prompt-ids",
                                            "267,220", "-n", "3"};
  std::vector<std::string> before = global, after = command;
  before.insert(before.end(), command.begin(), command.end());
  after.insert(after.end(), global.begin(), global.end());
  for (const std::vector<std::string>& args : {before, after}) {
    const SubprocessResult result = RunCli(args);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    const JsonValue json = ParseJsonText(result.out);
    EXPECT_EQ(At(At(json, "stats"), "mode").string(), "copy");
    EXPECT_EQ(Integers(At(json, "ids")).size(), 3u);
  }
}

TEST(UsageTest, HelpOfEveryCommandHasAnExample) {
  for (const char* command : {"generate", "info", "tokenize", "trace",
                              "perplexity", "convert", "bench"}) {
    const SubprocessResult result = RunCli({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_THAT(result.out, HasSubstr("Example:")) << command;
    EXPECT_THAT(result.out, HasSubstr(std::string("lowmem-run ")));
    EXPECT_EQ(result.err, "") << command;
    EXPECT_THAT(RunCli({"--help"}).out, HasSubstr(command));
  }
}

TEST(UsageTest, HelpSaysNothingOfWhatIsNotThere) {
  const std::string help = RunCli({"--help"}).out;
  for (const char* word : {"chat", "quantize", "serve", "embed", "help-man"}) {
    EXPECT_EQ(help.find(word), std::string::npos) << word;
  }
}

TEST(UsageTest, ManualDescribesEveryOptionOfTheHelp) {
  const SubprocessResult manual = RunCli({"--help-man"});
  ASSERT_EQ(manual.exit_code, 0);
  EXPECT_EQ(manual.out.rfind(".TH LOWMEM\\-RUN 1", 0), 0u);
  for (const char* part :
       {".SS generate", ".SS bench", "\\fB\\-\\-ram\\-budget\\fR",
        ".SH EXIT STATUS", "\\fB\\-\\-repetition\\-penalty\\fR", ".B 130"}) {
    EXPECT_THAT(manual.out, HasSubstr(part));
  }
}

// A process that waits in its first write has done all that --version does.
TEST(UsageTest, VersionAndHelpTakeAtMost8MegabytesOfMemory) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  for (const char* option : {"--version", "--help"}) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = {option};
    options.block_stdout = true;
    Subprocess process(options);
    ASSERT_TRUE(process.WaitUntilBlocked());
    const std::optional<uint64_t> peak = process.StatusBytes("VmHWM");
    ASSERT_TRUE(peak.has_value());
    EXPECT_LE(*peak, 8u << 20) << option;
  }
}

TEST(UsageTest, VersionIsALineAndTheInstructionSetAnother) {
  const SubprocessResult result = RunCli({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, ::testing::MatchesRegex(
                              "lowmem-run [0-9.]+\n"
                              "instruction set: [A-Z0-9_-]+ \\(.+\\)\n"));
}

}  // namespace
}  // namespace lowmem::testing
