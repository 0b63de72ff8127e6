// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

BenchRun RunWith(Mode mode, const std::string& meter) {
  BenchRun run;
  run.mode = mode;
  run.meter = *JsonValue::Parse(meter);
  return run;
}

BenchRun Refused() {
  BenchRun run;
  run.mode = Mode::kCopy;
  run.ram_budget_bytes = 1024;
  run.status = absl::ResourceExhaustedError("does not fit");
  return run;
}

TEST(BenchTableTest, FiguresStandUnderTheirRunsWithUnits) {
  const std::string table =
      BenchTable({RunWith(Mode::kMmap,
                          R"({"rss_anon_bytes":2048,"load_s":0.25,
                            "decode_tokens_per_s":12.34})"),
                  RunWith(Mode::kCopy, R"({"rss_anon_bytes":null})")});
  EXPECT_THAT(
      table,
      HasSubstr("mode                              mmap          copy\n"));
  EXPECT_THAT(
      table,
      HasSubstr("anonymous memory              2.00 KiB             -\n"));
  EXPECT_THAT(
      table,
      HasSubstr("load                           0.250 s             -\n"));
  EXPECT_THAT(
      table,
      HasSubstr("decode                      12.3 tok/s             -\n"));
}

TEST(BenchTableTest, OfAutoTheTableSaysWhatItCameTo) {
  BenchRun refused = Refused();
  refused.mode = Mode::kAuto;
  const std::vector<BenchRun> runs = {
      RunWith(Mode::kAuto, R"({"mode":"stream"})"),
      RunWith(Mode::kStream, R"({"mode":"stream"})"), refused};
  EXPECT_THAT(BenchTable(runs),
              HasSubstr("  auto: stream        stream          auto\n"));
  const absl::StatusOr<JsonValue> json = JsonValue::Parse(BenchJson(runs));
  ASSERT_TRUE(json.ok()) << json.status();
  const std::vector<JsonValue>& items = json->Find("runs")->items();
  EXPECT_EQ(items[0].Find("requested_mode")->string(), "auto");
  EXPECT_EQ(items[0].Find("mode")->string(), "stream");
  EXPECT_EQ(items[1].Find("requested_mode")->string(), "stream");
  EXPECT_EQ(items[2].Find("requested_mode")->string(), "auto");
}

TEST(BenchTableTest, RepeatsAreOneColumnOfMedians) {
  std::vector<BenchRun> runs;
  for (const char* speed : {"30.0", "10.0", "24.0", "20.0"}) {
    runs.push_back(
        RunWith(Mode::kMmap, absl::StrCat("{\"decode_tokens_per_s\":", speed,
                                          ",\"prefill_tokens_per_s\":null}")));
  }
  runs.push_back(Refused());
  runs.push_back(Refused());
  const std::string table = BenchTable(runs);
  EXPECT_THAT(
      table,
      HasSubstr("mode                              mmap          copy\n"));
  EXPECT_THAT(
      table,
      HasSubstr("medians of runs                      4             0\n"));
  EXPECT_THAT(
      table,
      HasSubstr("decode                      22.0 tok/s             -\n"
                "  slowest                   10.0 tok/s             -\n"
                "  fastest                   30.0 tok/s             -\n"));
  // Said once for both.
  EXPECT_THAT(table, EndsWith("\ncopy under 1.00 KiB: does not fit\n"));
  EXPECT_EQ(table.find("copy under"), table.rfind("copy under"));
}

TEST(BenchTableTest, ASingleRunHasNoSpread) {
  EXPECT_THAT(BenchTable({RunWith(Mode::kMmap, "{}")}),
              Not(HasSubstr("slowest")));
}

TEST(BenchTableTest, RefusalIsSaidBelow) {
  EXPECT_THAT(BenchTable({Refused()}),
              HasSubstr("\ncopy under 1.00 KiB: does not fit\n"));
}

TEST(BenchTableTest, ManyRunsStayWithin80Columns) {
  std::vector<BenchRun> runs(9, RunWith(Mode::kMmap, "{}"));
  for (size_t i = 0; i < runs.size(); ++i) runs[i].ram_budget_bytes = i << 20;
  const std::string table = BenchTable(runs);
  size_t num_columns = 0;
  for (absl::string_view line : absl::StrSplit(table, '\n')) {
    EXPECT_LE(line.size(), 80u);
    if (line.substr(0, 5) == "mode ") {
      for (absl::string_view word : absl::StrSplit(line, ' ')) {
        num_columns += word == "mmap";
      }
    }
  }
  EXPECT_EQ(num_columns, 9u);
}

TEST(BenchTableTest, LimitedRunsTellTheirGroup) {
  BenchRun run = RunWith(Mode::kMmap, R"({"prefill_weight_passes":2})");
  run.ram_budget_bytes = run.limit_bytes = 64 << 20;
  run.weight_bytes_per_token = 5 << 20;
  run.storage_bytes_per_token = 3 << 20;
  run.group = {63 << 20, 7, 0};
  const std::string table = BenchTable({run});
  for (const char* line : {"memory limit                  64.0 MiB\n",
                           "peak of the group             63.0 MiB\n",
                           "  a token                     3.00 MiB\n",
                           "weights used a token          5.00 MiB\n",
                           "passes in prefill                 2.00\n"}) {
    EXPECT_THAT(table, HasSubstr(line));
  }
  EXPECT_THAT(table, Not(HasSubstr("limit: none")));
  EXPECT_THAT(BenchJson({run}),
              HasSubstr(R"("bytes_read_per_token":5242880,)"
                        R"("storage_bytes_per_token":3145728,)"
                        R"("limit_bytes":67108864,"group_peak_bytes":66060288,)"
                        R"("group_limit_hits":7,"oom_kills":0})"));
}

TEST(BenchTableTest, WhyThereIsNoLimitIsSaidOnce) {
  BenchRun run = RunWith(Mode::kMmap, "{}");
  run.ram_budget_bytes = 1024;
  run.no_limit_reason = "no memory group";
  const std::string table = BenchTable({run, run});
  EXPECT_THAT(table, HasSubstr("memory limit                      none"));
  EXPECT_THAT(table, EndsWith("-\nlimit: none (no memory group)\n"));
}

TEST(BenchTableTest, JsonKeepsTheMetersAndNamesErrors) {
  EXPECT_EQ(
      BenchJson(
          {RunWith(Mode::kMmap, R"({"mode":"mmap","load_s":0.1})"), Refused()}),
      R"({"runs":[{"requested_mode":"mmap","mode":"mmap","load_s":0.1,"bytes_read_per_token":null,)"
      R"("storage_bytes_per_token":null,"limit_bytes":null,)"
      R"("group_peak_bytes":null,"group_limit_hits":null,"oom_kills":null},)"
      R"({"requested_mode":"copy","mode":"copy","ram_budget_bytes":1024,"limit_bytes":null,)"
      R"("group_peak_bytes":null,"group_limit_hits":null,"oom_kills":null,)"
      R"("error":"does not fit"}]})"
      "\n");
}

}  // namespace
}  // namespace lowmem::cli
