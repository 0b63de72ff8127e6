// SPDX-License-Identifier: Apache-2.0
// Whatever way a sequence goes through a model, its logits have the same bits.
// Chunks, threads, modes and instruction sets: transformer_targets_test.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/engine/nn/wrapped_sources.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

class EquivalenceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = absl::StrCat(LOWMEM_TESTDATA_DIR, "/", GetParam());
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(path));
    // 40 tokens: more than two pages of the cache, and no whole number of them.
    ids_ = ReadGoldenPrompts(
               absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama/golden.json"))
               .at(1)
               .ids;
    ASSERT_EQ(ids_.size(), 40u);
    baseline_ = LogitsWith(RunOptions{.chunk_tokens = 64});
    ASSERT_EQ(baseline_.size(), ids_.size() * model_->config.vocab_size);
  }

  std::vector<float> LogitsWith(const RunOptions& options) {
    auto run = ModelRun::Create(*model_, options);
    EXPECT_THAT(run, IsOk());
    Recording recording;
    EXPECT_THAT((*run)->Forward(ids_, LogitsFor::kEveryToken, recording),
                IsOk());
    return recording.AllLogits();
  }

  std::unique_ptr<OpenModel> model_;
  std::vector<int32_t> ids_;
  std::vector<float> baseline_;
};

// A token attends to its own chunk's keys and values as they are kept, too.
TEST_P(EquivalenceTest, ChunksThreadsAndModesForEachFormatOfKeysAndValues) {
  for (const KvFormat format : {KvFormat::kBF16, KvFormat::kQ8}) {
    const std::vector<float> rounded =
        LogitsWith({.chunk_tokens = 64, .kv_format = format});
    EXPECT_NE(rounded, baseline_);
    for (const bool copy : {false, true}) {
      for (const uint32_t num_threads : {1u, 2u, 3u}) {
        for (const uint32_t chunk_tokens : {1u, 7u, 64u}) {
          EXPECT_EQ(LogitsWith({.copy = copy,
                                .num_threads = num_threads,
                                .chunk_tokens = chunk_tokens,
                                .kv_format = format}),
                    rounded)
              << (copy ? "copy" : "mmap") << ", threads " << num_threads
              << ", chunk " << chunk_tokens << ", format "
              << static_cast<int>(format);
        }
      }
    }
  }
}

double RootMeanSquare(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST_P(EquivalenceTest, RoundedKeysAndValuesStayClose) {
  struct Case {
    KvFormat format;
    double rounding;  // of a number, by the largest of its block
  };
  for (const Case& c :
       {Case{KvFormat::kBF16, 0x1p-9}, Case{KvFormat::kQ8, 0.5 / 127}}) {
    std::vector<float> difference = LogitsWith({.kv_format = c.format});
    for (size_t i = 0; i < difference.size(); ++i) {
      difference[i] -= baseline_[i];
    }
    // A value is off by a rounding at most. A score is off by one of itself,
    // and its weight by as much times the score, which is a few units here.
    // Twice that over two layers; measured 1.6 to 5.8. A transform of the
    // queries alone, or a scale that is not theirs, would give 100 and more.
    EXPECT_LE(RootMeanSquare(difference),
              8 * c.rounding * RootMeanSquare(baseline_));
    EXPECT_GT(RootMeanSquare(difference), 0.0);
  }
}

TEST_P(EquivalenceTest, LeasesOfFewRows) {
  for (const uint64_t max_rows : {1, 2, 5, 17}) {
    const auto wrap = [&](WeightSource& source, const Checkpoint&) {
      return std::make_unique<TricklingSource>(source, max_rows);
    };
    EXPECT_EQ(
        LogitsWith({.num_threads = 2, .chunk_tokens = 7, .wrap_source = wrap}),
        baseline_)
        << max_rows;
  }
}

TEST_P(EquivalenceTest, LogitsInTilesOfTokens) {
  const uint64_t row_bytes = model_->config.vocab_size * sizeof(float);
  // One row though none fits, one, three that do not divide a chunk, all.
  for (const uint64_t logit_bytes :
       {uint64_t{0}, row_bytes, 4 * row_bytes - 1, 64 * row_bytes}) {
    EXPECT_EQ(LogitsWith({.chunk_tokens = 16, .logit_bytes = logit_bytes}),
              baseline_)
        << logit_bytes;
  }
}

TEST_P(EquivalenceTest, SequenceInSeveralCalls) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  Recording recording;
  const absl::Span<const int32_t> ids = ids_;
  ASSERT_THAT(run->Forward(ids.first(3), LogitsFor::kEveryToken, recording),
              IsOk());
  ASSERT_THAT(
      run->Forward(ids.subspan(3, 20), LogitsFor::kEveryToken, recording),
      IsOk());
  for (size_t i = 23; i < ids.size(); ++i) {
    ASSERT_THAT(
        run->Forward(ids.subspan(i, 1), LogitsFor::kEveryToken, recording),
        IsOk());
  }
  EXPECT_EQ(recording.AllLogits(), baseline_);
}

TEST_P(EquivalenceTest, LastTokenOnly) {
  for (const uint32_t chunk_tokens : {1u, 13u, 40u, 64u}) {
    ASSERT_OK_AND_ASSIGN(
        auto run, ModelRun::Create(*model_, {.chunk_tokens = chunk_tokens}));
    Recording recording;
    ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
    EXPECT_EQ(recording.positions, std::vector<uint64_t>{39});
    const std::vector<float> last(baseline_.end() - model_->config.vocab_size,
                                  baseline_.end());
    EXPECT_EQ(recording.AllLogits(), last) << chunk_tokens;
  }
}

TEST_P(EquivalenceTest, HiddenStatesWatchedOrNot) {
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.chunk_tokens = 16}));
  Recording recording;
  recording.wants_hidden = true;
  ASSERT_THAT(run->Forward(ids_, LogitsFor::kEveryToken, recording), IsOk());
  EXPECT_EQ(recording.AllLogits(), baseline_);
  EXPECT_EQ(recording.final_norm.size(), ids_.size() * model_->config.dim);
}

TEST_P(EquivalenceTest, AfterTruncation) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  Recording recording;
  // Other tokens first, so that what is left of them would be noticed.
  const std::vector<int32_t> others(37, 5);
  ASSERT_THAT(run->Forward(absl::MakeSpan(ids_).first(17),
                           LogitsFor::kEveryToken, recording),
              IsOk());
  Recording forgotten;
  ASSERT_THAT(run->Forward(others, LogitsFor::kLastToken, forgotten), IsOk());
  run->kv->Truncate(17);
  ASSERT_THAT(run->Forward(absl::MakeSpan(ids_).subspan(17),
                           LogitsFor::kEveryToken, recording),
              IsOk());
  EXPECT_EQ(recording.AllLogits(), baseline_);
}

INSTANTIATE_TEST_SUITE_P(Tiny, EquivalenceTest,
                         ::testing::Values("tiny/llama", "tiny/llama_linear",
                                           "tiny/qwen2_sharded_scattered",
                                           "tiny-gguf/llama-mixed.gguf",
                                           "tiny-gguf/qwen2-q8_0.gguf"),
                         [](const auto& param) {
                           return PathAsName(param.param);
                         });

}  // namespace
}  // namespace lowmem::testing
