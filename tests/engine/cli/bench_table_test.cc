// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/bench_table.h"

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lowmem::cli {
namespace {

using ::testing::HasSubstr;

BenchRun RunWith(Mode mode, const std::string& meter) {
  return {mode, std::nullopt, absl::OkStatus(), *JsonValue::Parse(meter)};
}

BenchRun Refused() {
  return {Mode::kCopy, 1024, absl::ResourceExhaustedError("does not fit"),
          JsonValue()};
}

TEST(BenchTableTest, FiguresStandUnderTheirRunsWithUnits) {
  const std::string table = BenchTable(
      {RunWith(Mode::kMmap,
               R"({"rss_anon_bytes":2048,"load_s":0.25,"model_bytes":1000,
                            "decode_weight_passes":1.5,"decode_tokens_per_s":12.34})"),
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
  EXPECT_THAT(
      table,
      HasSubstr("weights read a token          1.46 KiB             -\n"));
}

TEST(BenchTableTest, RefusalIsSaidBelow) {
  EXPECT_THAT(BenchTable({Refused()}),
              HasSubstr("\ncopy under 1.00 KiB: does not fit\n"));
}

TEST(BenchTableTest, ManyRunsStayWithin80Columns) {
  const std::vector<BenchRun> runs(9, RunWith(Mode::kMmap, "{}"));
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

TEST(BenchTableTest, JsonKeepsTheMetersAndNamesErrors) {
  EXPECT_EQ(
      BenchJson(
          {RunWith(Mode::kMmap, R"({"mode":"mmap","load_s":0.1})"), Refused()}),
      R"({"runs":[{"mode":"mmap","load_s":0.1,"bytes_read_per_token":null},)"
      R"({"mode":"copy","ram_budget_bytes":1024,"error":"does not fit"}]})"
      "\n");
}

}  // namespace
}  // namespace lowmem::cli
