// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/plan_report.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "storage/base/json.h"
#include "storage/base/units.h"
#include "tests/support/status_matchers.h"

namespace lowmem::cli {
namespace {

using ::testing::HasSubstr;

// A model whose tied head is one matrix of several bands is not among the tiny
// ones; rows of bands are added up by tensor all the same.
absl::StatusOr<ModelSummary> Summarize(Mode mode, uint64_t budget_bytes) {
  EngineOptions options;
  options.model_path = absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama");
  options.mode = mode;
  options.num_threads = 2;
  options.max_context_tokens = 32;
  options.prefill_chunk_tokens = 16;
  options.ram_budget_bytes = budget_bytes;
  return SummarizeModel(options);
}

uint64_t SumOfBytesPerToken(const PlanReport& report) {
  uint64_t sum = 0;
  for (const PlanRow& row : report.rows) sum += row.bytes_per_token();
  return sum;
}

TEST(PlanReportTest, AccountsAddUpToNoMoreThanTheBudget) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary ample,
                       Summarize(Mode::kStream, 64 * kMiB));
  const uint64_t least = ample.modes[2].smallest.required_bytes();
  uint64_t streamed_before = UINT64_MAX;
  for (uint64_t budget = least; budget < least + 150 * kKiB;
       budget += 33 * kKiB) {
    ASSERT_OK_AND_ASSIGN(const ModelSummary summary,
                         Summarize(Mode::kStream, budget));
    ASSERT_TRUE(summary.choice.ok()) << summary.choice.status();
    PlanReport report = ReportPlan(summary);
    report.read_rate = ReadRate{1e9, "threads"};
    EXPECT_LE(report.peak_bytes(), budget);
    EXPECT_GT(report.peak_bytes() + 64 * kKiB, budget);
    EXPECT_EQ(report.context_tokens, 32);
    // Of the tiny model the embedding alone is looked up: 320 rows of 96 bf16.
    const PlanRow& embedding = report.rows.back();
    EXPECT_TRUE(embedding.is_looked_up);
    EXPECT_EQ(embedding.bytes_per_token(),
              embedding.streamed_rows() == 0 ? 0 : 96 * 2);
    EXPECT_EQ(report.streamed_bytes_per_token + embedding.bytes_per_token(),
              SumOfBytesPerToken(report));
    EXPECT_LT(report.streamed_bytes_per_token, streamed_before);
    streamed_before = report.streamed_bytes_per_token;
    EXPECT_DOUBLE_EQ(*report.max_tokens_per_s(),
                     1e9 / report.streamed_bytes_per_token);
  }
}

TEST(PlanReportTest, OfAMappingThatFitsAsAWholeThereIsNoPlan) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary,
                       Summarize(Mode::kMmap, 64 * kMiB));
  EXPECT_TRUE(summary.choice.ok());
  EXPECT_FALSE(summary.placement.has_value());
}

TEST(PlanReportTest, ACopyStreamsNothing) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary,
                       Summarize(Mode::kAuto, 64 * kMiB));
  PlanReport report = ReportPlan(summary);
  report.read_rate = ReadRate{1e9, "threads"};
  EXPECT_EQ(report.mode, Mode::kCopy);
  EXPECT_EQ(SumOfBytesPerToken(report), 0);
  EXPECT_EQ(report.max_tokens_per_s(), std::nullopt);
  EXPECT_EQ(report.rows.size(), summary.checkpoint->tensors().size());
}

TEST(PlanReportTest, TextAndJsonSayTheSame) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary ample,
                       Summarize(Mode::kStream, 64 * kMiB));
  ASSERT_OK_AND_ASSIGN(
      const ModelSummary summary,
      Summarize(Mode::kStream, ample.modes[2].smallest.required_bytes()));
  PlanReport report = ReportPlan(summary);
  report.read_rate = ReadRate{2.5 * kGiB, "threads, direct"};
  const std::string text = PlanToText(report);
  EXPECT_THAT(text, HasSubstr("model.layers.1.mlp.down_proj.weight"));
  EXPECT_THAT(text,
              HasSubstr("2.50 GiB a second, measured now (threads, direct)"));
  EXPECT_THAT(text, HasSubstr("mode                     stream\n"));
  EXPECT_LT(text.find("at most"), text.find("a token\n"))
      << "what matters comes before the tensors";
  JsonWriter writer;
  WritePlan(report, writer);
  ASSERT_OK_AND_ASSIGN(const JsonValue json, JsonValue::Parse(writer.text()));
  EXPECT_EQ(json.Find("mode")->string(), "stream");
  ASSERT_EQ(json.Find("tensors")->items().size(), report.rows.size());
  uint64_t sum = 0;
  for (const JsonValue& tensor : json.Find("tensors")->items()) {
    sum += tensor.Find("bytes_per_token")->AsUint64().value_or(0);
  }
  EXPECT_EQ(sum, SumOfBytesPerToken(report));
  EXPECT_EQ(json.Find("peak_bytes")->AsUint64(), report.peak_bytes());
  EXPECT_EQ(json.Find("accounts")->Find("kv_bytes")->AsUint64(),
            summary.choice->forecast.kv_bytes());
  EXPECT_EQ(json.Find("streamed_bytes_per_token")->AsUint64(),
            report.streamed_bytes_per_token);
}

}  // namespace
}  // namespace lowmem::cli
