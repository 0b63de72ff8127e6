// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_summary.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;

EngineOptions OptionsFor(const std::string& path) {
  EngineOptions options;
  options.model_path = absl::StrCat(LOWMEM_TESTDATA_DIR, "/", path);
  options.num_threads = 1;
  return options;
}

TEST(ModelSummaryTest, SaysWhatTheModelIs) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary,
                       SummarizeModel(OptionsFor("tiny/llama")));
  EXPECT_EQ(summary.family, "llama");
  EXPECT_EQ(summary.config.num_layers, 2);
  EXPECT_EQ(summary.config.dim, 96);
  // Embedding and head, two layers of q, k, v, o, gate, up, down and two norms,
  // and the last norm; two bytes each.
  const uint64_t layer = 2 * 96 * 96 + 2 * 32 * 96 + 3 * 160 * 96 + 2 * 96;
  EXPECT_EQ(summary.num_parameters, 2 * 320 * 96 + 2 * layer + 96);
  EXPECT_EQ(summary.model_bytes, 2 * summary.num_parameters);
  EXPECT_EQ(summary.checkpoint->tensors().size(), 2 * 9 + 3);
}

TEST(ModelSummaryTest, RoundedKeysAndValuesLetABudgetHoldMoreTokens) {
  EngineOptions options = OptionsFor("tiny/qwen2");
  ASSERT_OK_AND_ASSIGN(const ModelSummary exact, SummarizeModel(options));
  options.kv_dtype = KvDtype::kQ8;
  ASSERT_OK_AND_ASSIGN(const ModelSummary rounded, SummarizeModel(options));
  const ModelFootprint& footprint = rounded.modes[0].full.footprint;
  EXPECT_EQ(footprint.kv_bytes_per_token, 2 * 2 * 2 * (16 + 2));
  EXPECT_LT(rounded.modes[0].full.required_bytes(),
            exact.modes[0].full.required_bytes());
}

TEST(ModelSummaryTest, AForecastForEachMode) {
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary,
                       SummarizeModel(OptionsFor("tiny/qwen2")));
  ASSERT_EQ(summary.modes.size(), 3);
  const MemoryForecast& mmap = summary.modes[0].full;
  EXPECT_EQ(mmap.mode, Mode::kMmap);
  EXPECT_EQ(mmap.mapped_weight_bytes, summary.model_bytes);
  EXPECT_EQ(mmap.footprint.context_tokens, summary.config.max_context_tokens);
  EXPECT_EQ(mmap.footprint.kv_bytes_per_token, 2 * 2 * 2 * 16 * sizeof(float));
  const MemoryForecast& copy = summary.modes[1].full;
  EXPECT_EQ(copy.mode, Mode::kCopy);
  // Each tensor is padded to 64 bytes, all of them to a page.
  EXPECT_GE(copy.heap_weight_bytes, summary.model_bytes);
  EXPECT_LT(
      copy.heap_weight_bytes,
      summary.model_bytes + 64 * summary.checkpoint->tensors().size() + 4096);
  for (const ModeSummary& mode : summary.modes) {
    ASSERT_TRUE(mode.planned.has_value());
    EXPECT_EQ(mode.planned->forecast.required_bytes(),
              mode.full.required_bytes());
    EXPECT_LT(mode.smallest.required_bytes(), mode.full.required_bytes());
  }
}

// What Open really takes is what was forecast.
TEST(ModelSummaryTest, TheForecastIsWhatTheMeterShows) {
  EngineOptions options = OptionsFor("tiny/llama");
  options.mode = Mode::kCopy;
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary, SummarizeModel(options));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Engine> engine,
                       Engine::Open(options));
  const Meter meter = engine->MemoryReport();
  const MemoryForecast& copy = summary.modes[1].planned->forecast;
  EXPECT_EQ(meter.resident_weight_bytes, copy.footprint.weight_bytes);
  EXPECT_LE(meter.arena_bytes, copy.footprint.arena_bytes);
  EXPECT_GT(meter.arena_bytes + 4096, copy.footprint.arena_bytes);
}

TEST(ModelSummaryTest, TheSmallestBudgetIsExact) {
  for (const char* path :
       {"tiny/llama", "tiny/qwen2", "tiny-gguf/llama-q4_0.gguf"}) {
    EngineOptions options = OptionsFor(path);
    ASSERT_OK_AND_ASSIGN(const ModelSummary summary, SummarizeModel(options));
    options.ram_budget_bytes = summary.min_budget_bytes;
    EXPECT_THAT(Engine::Open(options), IsOk()) << path;
    options.ram_budget_bytes = summary.min_budget_bytes - 1;
    EXPECT_THAT(Engine::Open(options),
                Fails(absl::StatusCode::kResourceExhausted, "needed"))
        << path;
  }
}

TEST(ModelSummaryTest, ThePlanUnderABudgetIsWhatOpenTakes) {
  EngineOptions options = OptionsFor("tiny/llama");
  ASSERT_OK_AND_ASSIGN(const ModelSummary unlimited, SummarizeModel(options));
  options.ram_budget_bytes = unlimited.modes[1].smallest.required_bytes() - 1;
  ASSERT_OK_AND_ASSIGN(const ModelSummary summary, SummarizeModel(options));
  EXPECT_FALSE(summary.modes[1].planned.has_value());
  ASSERT_TRUE(summary.modes[2].planned.has_value());
  const std::unique_ptr<Engine> engine = *Engine::Open(options);
  EXPECT_EQ(engine->mode(), Mode::kStream);
  EXPECT_EQ(engine->max_context_tokens(),
            summary.modes[2].planned->context_tokens());
}

// Who measures the storage reads as the run will.
TEST(ModelSummaryTest, TheRingOfTheBudgetIsTold) {
  EngineOptions options = OptionsFor("tiny/llama");
  options.mode = Mode::kStream;
  ASSERT_OK_AND_ASSIGN(ModelSummary summary, SummarizeModel(options));
  options.ram_budget_bytes = summary.modes[2].smallest.required_bytes();
  ASSERT_OK_AND_ASSIGN(summary, SummarizeModel(options));
  ASSERT_TRUE(summary.placement && summary.placement->ring);
  const StreamRingShape& ring = *summary.placement->ring;
  EXPECT_LT(ring.num_buffers * ring.buffer_bytes, 1 << 20);
  EXPECT_LE(ring.num_buffers * ring.buffer_bytes,
            summary.placement->buffer_bytes);
  options.mode = Mode::kCopy;
  options.ram_budget_bytes = summary.modes[1].smallest.required_bytes();
  ASSERT_OK_AND_ASSIGN(summary, SummarizeModel(options));
  ASSERT_TRUE(summary.placement.has_value());
  EXPECT_FALSE(summary.placement->ring.has_value());
}

TEST(ModelSummaryTest, AnAbsentModelIsNotFound) {
  EXPECT_THAT(SummarizeModel(OptionsFor("absent")),
              Fails(absl::StatusCode::kNotFound, "absent"));
}

}  // namespace
}  // namespace lowmem
