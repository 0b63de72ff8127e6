// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, readers that go away and outputs that take nothing.
#include <sys/stat.h>

#include <csignal>

#include "tests/e2e/cli_fixture.h"

namespace lowmem::testing {
namespace {

// Goes on for as long as the context of the tiny model lets it: it is made
// large.
class EndlessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = CopyTiny("llama", folder_);
    ReplaceInFile(model_ + "/config.json", "\"max_position_embeddings\": 512",
                  "\"max_position_embeddings\": 1000000");
  }
  SubprocessOptions Endless() const {
    SubprocessOptions options;
    options.program = Cli();
    options.args = {"-m",           model_,    "-t", "1",  "generate",
                    "--prompt-ids", "267,220", "-n", "-1", "--ignore-eos"};
    return options;
  }
  const TempFolder folder_;
  std::string model_;
};

// Terminals and timeout(1) send the same signal twice.
TEST_F(EndlessTest, SignalEndsWith130AndWhatWasPrintedStays) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    Subprocess process(Endless());
    ASSERT_TRUE(process.WaitForStdout(100));
    process.Signal(signal_number);
    process.Signal(signal_number);
    const SubprocessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 130);
    EXPECT_GE(result.out.size(), 100u);
    EXPECT_EQ(result.out.back(), '\n');
    EXPECT_EQ(result.err, "lowmem-run: interrupted\n");
  }
}

TEST_F(EndlessTest, JsonTellsThatItWasInterrupted) {
  SubprocessOptions options = Endless();
  options.args.push_back("--json");
  Subprocess process(options);
  // Nothing is printed before the end, but opening so small a model takes no
  // time.
  ASSERT_TRUE(process.WaitForCpuSeconds(0.5));
  process.Signal(SIGINT);
  const SubprocessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_EQ(At(ParseJsonText(result.out), "stop_reason").string(),
            "interrupted");
}

// Reading 60 MiB of text takes some tenths of a second, tokenizing it many
// seconds. A prompt would be refused at the first token too many.
TEST_F(EndlessTest, SignalEndsTheTokenizingOfALongText) {
  const std::string text = folder_.Path("long.txt");
  std::string words;
  while (words.size() < (60u << 20)) words += "the keeper reads the book ";
  WriteFile(text, words);
  for (const char* budget : {"", "1G"}) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = {"-m", model_, "perplexity", "--file", text};
    if (*budget != 0) {
      options.args.insert(options.args.end(), {"--ram-budget", budget});
    }
    Subprocess process(options);
    ASSERT_TRUE(process.WaitForCpuSeconds(1.0));
    process.Signal(SIGINT);
    const SubprocessResult result = process.Wait();
    EXPECT_EQ(result.exit_code, 130) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(result.err, "lowmem-run: interrupted\n");
  }
}

TEST_F(EndlessTest, ReaderThatGoesAwayEndsItQuietly) {
  Subprocess process(Endless());
  ASSERT_TRUE(process.WaitForStdout(10));
  process.CloseStdout();
  const SubprocessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(EndlessTest, HangupThatIsIgnoredStaysSo) {
  SubprocessOptions options = Endless();
  options.program = "/bin/sh";  // as nohup does it
  options.args = {"-c", "trap '' HUP && exec \"$0\" \"$@\"", Cli()};
  const std::vector<std::string> args = Endless().args;
  options.args.insert(options.args.end(), args.begin(), args.end());
  Subprocess process(options);
  ASSERT_TRUE(process.WaitForStdout(100));
  process.Signal(SIGHUP);
  // More than could have been written before the signal.
  EXPECT_TRUE(process.WaitForStdout(4000));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().exit_code, 130);
}

// A reader who is there and takes nothing: the first write never ends.
TEST_F(EndlessTest, SignalEndsTheWaitForAnIdleReader) {
  const std::vector<std::vector<std::string>> commands = {
      Endless().args, {"--help"}, {"-m", Tiny("llama"), "info"}};
  for (const std::vector<std::string>& command : commands) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = command;
    options.block_stdout = true;
    Subprocess process(options);
    ASSERT_TRUE(process.WaitUntilBlocked());
    process.Signal(SIGINT);
    EXPECT_TRUE(IsRefusal(process.Wait(), 130, "interrupted"))
        << command.back();
  }
}

TEST(OutputTest, FullOutputIsCode7) {
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"--help"},
      {"-m", Tiny("llama"), "info"},
      {"-m", Tiny("llama"), "--json", "info", "--tensors"},
      {"-m", Tiny("llama"), "generate", "-p", "a", "-n", "3"},
      {"-m", Tiny("llama"), "--json", "generate", "-p", "a", "-n", "3"}};
  for (const std::vector<std::string>& command : commands) {
    SubprocessOptions options;
    options.program = Cli();
    options.args = command;
    options.stdout_path = "/dev/full";
    EXPECT_TRUE(IsRefusal(RunSubprocess(options), 7, "stdout: "))
        << command.back();
  }
}

TEST(OutputTest, TokenizeEndsQuietlyWithItsReader) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "{\"text\": \"H\"}\n";
  SubprocessOptions options;
  options.program = Cli();
  options.args = {"-m", Tiny("llama"), "tokenize"};
  options.stdin_text = lines;
  Subprocess process(options);
  ASSERT_TRUE(process.WaitForStdout(10));
  process.CloseStdout();
  const SubprocessResult result = process.Wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST(OutputTest, WaitingForStdinEndsOnASignal) {
  SubprocessOptions options;
  options.program = Cli();
  options.args = {"-m", Tiny("llama"), "tokenize"};
  options.keep_stdin_open = true;
  Subprocess process(options);
  ASSERT_TRUE(process.WaitUntilBlocked());
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait().exit_code, 130);
}

// Opening a FIFO waits for a writer, who never comes.
TEST(OutputTest, WaitingForAFifoEndsOnASignal) {
  const TempFolder folder;
  const std::string fifo = folder.Path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::vector<std::vector<std::string>> commands = {
      {"-m", Tiny("llama"), "generate", "--prompt-file", fifo},
      {"-m", Tiny("llama"), "perplexity", "--file", fifo}};
  for (const std::vector<std::string>& command : commands) {
    for (const int signal_number : {SIGINT, SIGTERM}) {
      SubprocessOptions options;
      options.program = Cli();
      options.args = command;
      Subprocess process(options);
      ASSERT_TRUE(process.WaitUntilBlocked());
      process.Signal(signal_number);
      EXPECT_TRUE(IsRefusal(process.Wait(), 130, "interrupted"))
          << command[2] << " " << signal_number;
    }
  }
}

}  // namespace
}  // namespace lowmem::testing
