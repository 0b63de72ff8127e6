// SPDX-License-Identifier: Apache-2.0
// The forward pass beyond its values: refusals, failures at every point, what
// is counted and what is held.
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/golden_prompts.h"
#include "tests/engine/nn/model_run.h"
#include "tests/engine/nn/wrapped_sources.h"
#include "tests/support/status_matchers.h"

namespace lowmem::testing {
namespace {

class TransformerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder =
        absl::StrCat(LOWMEM_TESTDATA_DIR, "/tiny/llama_linear");
    ASSERT_OK_AND_ASSIGN(model_, OpenModel::Open(folder));
    ids_ = ReadGoldenPrompts(folder + "/golden.json").at(1).ids;
    ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
    Recording recording;
    ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
    expected_ = recording.AllLogits();
  }

  // Continues after a failure with what the cache does not hold yet, and
  // compares.
  void ExpectUsable(ModelRun& run) {
    Recording recording;
    ASSERT_THAT(run.Forward(absl::MakeSpan(ids_).subspan(run.kv->size()),
                            LogitsFor::kLastToken, recording),
                IsOk());
    EXPECT_EQ(recording.AllLogits(), expected_);
  }

  std::unique_ptr<OpenModel> model_;
  std::vector<int32_t> ids_;
  std::vector<float> expected_;  // logits after the last token
};

TEST_F(TransformerTest, RefusesIdsOutsideTheVocabulary) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  Recording recording;
  const auto vocab_size = static_cast<int32_t>(model_->config.vocab_size);
  for (const int32_t id : {-1, vocab_size, INT32_MAX, INT32_MIN}) {
    EXPECT_THAT(
        run->Forward({0, id}, LogitsFor::kLastToken, recording),
        Fails(absl::StatusCode::kInvalidArgument, absl::StrCat("got ", id)));
  }
  EXPECT_EQ(run->kv->size(), 0u);
  EXPECT_EQ(run->transformer->weight_bytes_read(), 0u);
  EXPECT_THAT(run->Forward({vocab_size - 1}, LogitsFor::kLastToken, recording),
              IsOk());
}

TEST_F(TransformerTest, RefusesNoTokens) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  Recording recording;
  EXPECT_THAT(run->Forward({}, LogitsFor::kLastToken, recording),
              Fails(absl::StatusCode::kInvalidArgument, "at least one token"));
}

TEST_F(TransformerTest, RefusesMoreThanTheContextBeforeComputing) {
  ASSERT_OK_AND_ASSIGN(
      auto run,
      ModelRun::Create(*model_, {.chunk_tokens = 8, .context_tokens = 39}));
  Recording recording;
  EXPECT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording),
              Fails(absl::StatusCode::kOutOfRange, "at most 39"));
  EXPECT_EQ(run->transformer->weight_bytes_read(), 0u);
  EXPECT_EQ(run->kv->allocated_bytes(), 0u);
  EXPECT_THAT(run->Forward(absl::MakeSpan(ids_).first(39),
                           LogitsFor::kLastToken, recording),
              IsOk());
  EXPECT_THAT(run->Forward({1}, LogitsFor::kLastToken, recording),
              Fails(absl::StatusCode::kOutOfRange, "after 39"));
}

TEST_F(TransformerTest, RefusesTheCacheOfAnotherModel) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  KvCache other({.num_layers = 1, .num_kv_heads = 1, .head_dim = 2}, 64,
                run->account);
  Recording recording;
  EXPECT_THAT(run->transformer->Forward({1}, LogitsFor::kLastToken, nullptr,
                                        other, recording),
              Fails(absl::StatusCode::kInternal, "another model"));
}

TEST_F(TransformerTest, RefusesAnEmptyChunk) {
  EXPECT_THAT(ModelRun::Create(*model_, {.chunk_tokens = 0}),
              Fails(absl::StatusCode::kInvalidArgument, "at least one token"));
  EXPECT_THAT(ModelRun::Create(*model_, {.context_tokens = 0}),
              Fails(absl::StatusCode::kInvalidArgument, "at least one token"));
}

TEST_F(TransformerTest, RefusedArenaNamesItsLargestBuffer) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  MemoryAccount small("activations", 1000, nullptr);
  EXPECT_THAT(Transformer::Create(model_->config, *model_->checkpoint,
                                  model_->weights, *run->inner_source,
                                  *run->pool, TransformerOptions(), small),
              Fails(absl::StatusCode::kResourceExhausted, "activations"));
}

TEST_F(TransformerTest, CacheOutOfMemoryKeepsTheChunksBefore) {
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.chunk_tokens = 16}));
  const KvShape shape = run->kv->shape();
  MemoryAccount one_page("cache", 15'000, nullptr);
  KvCache small(shape, 128, one_page);
  Recording recording;
  EXPECT_THAT(run->transformer->Forward(ids_, LogitsFor::kLastToken, nullptr,
                                        small, recording),
              Fails(absl::StatusCode::kResourceExhausted, "cache"));
  EXPECT_EQ(small.size(), 16u);
  EXPECT_TRUE(recording.logits.empty());
}

TEST_F(TransformerTest, HeadIsReadOncePerTileOfTokens) {
  const uint64_t row_bytes = model_->config.vocab_size * sizeof(float);
  std::vector<uint64_t> bytes_read;
  for (const uint64_t tile_tokens : {16, 8}) {
    ASSERT_OK_AND_ASSIGN(
        auto run,
        ModelRun::Create(*model_, {.chunk_tokens = 16,
                                   .logit_bytes = tile_tokens * row_bytes}));
    Recording recording;
    ASSERT_THAT(run->Forward(absl::MakeSpan(ids_).first(16),
                             LogitsFor::kEveryToken, recording),
                IsOk());
    bytes_read.push_back(run->transformer->weight_bytes_read());
  }
  EXPECT_EQ(bytes_read[1] - bytes_read[0],
            model_->checkpoint->tensors()[model_->weights.head].size_bytes);
}

TEST_F(TransformerTest, FailureAtAnyAcquireLeavesTheCacheUsable) {
  constexpr uint32_t kChunkTokens = 16;
  uint64_t num_failures = 0;
  for (bool completed = false; !completed; ++num_failures) {
    uint64_t fail_at = num_failures;
    const auto wrap = [&](WeightSource& source, const Checkpoint&) {
      return std::make_unique<WatchedSource>(source, [&](uint64_t number) {
        return number == fail_at ? absl::UnavailableError("no disk")
                                 : absl::OkStatus();
      });
    };
    ASSERT_OK_AND_ASSIGN(
        auto run, ModelRun::Create(*model_, {.num_threads = 2,
                                             .chunk_tokens = kChunkTokens,
                                             .wrap_source = wrap}));
    Recording recording;
    const absl::Status status =
        run->Forward(ids_, LogitsFor::kLastToken, recording);
    completed = status.ok();
    if (completed) break;
    ASSERT_THAT(status, Fails(absl::StatusCode::kUnavailable, "no disk"));
    ASSERT_EQ(run->kv->size() % kChunkTokens, 0u);
    ASSERT_LT(run->kv->size(), ids_.size());
    ASSERT_EQ(run->kv->allocated_bytes(),
              run->kv->size() * KvCache::BytesPerToken(run->kv->shape()));
    ASSERT_TRUE(recording.logits.empty());
    ExpectUsable(*run);
  }
  // Three chunks of 2 layers with 16 tensors each, the tokens, the head.
  EXPECT_EQ(num_failures, 3 * 2 * 16 + ids_.size() + 2);
}

TEST_F(TransformerTest, CancelledAtAnyAcquireLeavesTheCacheUsable) {
  uint64_t num_cancelled = 0;
  for (uint64_t cancel_at = 0;; ++cancel_at) {
    std::atomic<bool> cancel = false;
    const auto wrap = [&](WeightSource& source, const Checkpoint&) {
      return std::make_unique<WatchedSource>(source, [&](uint64_t number) {
        if (number == cancel_at) cancel = true;
        return absl::OkStatus();
      });
    };
    ASSERT_OK_AND_ASSIGN(auto run,
                         ModelRun::Create(*model_, {.num_threads = 2,
                                                    .chunk_tokens = 16,
                                                    .wrap_source = wrap}));
    Recording recording;
    const absl::Status status =
        run->Forward(ids_, LogitsFor::kLastToken, recording, &cancel);
    if (!cancel) break;
    if (status.ok()) continue;  // came too late: nothing was left to do
    ASSERT_THAT(status, Fails(absl::StatusCode::kCancelled, "interrupted"));
    ++num_cancelled;
    ExpectUsable(*run);
  }
  EXPECT_GT(num_cancelled, 3 * 2 * 16u);
}

TEST_F(TransformerTest, CancelledBeforehandComputesNothing) {
  ASSERT_OK_AND_ASSIGN(auto run, ModelRun::Create(*model_, RunOptions()));
  const std::atomic<bool> cancel = true;
  Recording recording;
  EXPECT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording, &cancel),
              Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(run->transformer->weight_bytes_read(), 0u);
}

TEST_F(TransformerTest, ObserverEndsThePass) {
  struct Refusing : Recording {
    absl::Status OnLogits(uint64_t pos, absl::Span<const float> row) override {
      if (pos == 20) return absl::ResourceExhaustedError("enough");
      return Recording::OnLogits(pos, row);
    }
  };
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.chunk_tokens = 16}));
  Refusing observer;
  EXPECT_THAT(run->Forward(ids_, LogitsFor::kEveryToken, observer),
              Fails(absl::StatusCode::kResourceExhausted, "enough"));
  EXPECT_EQ(observer.positions.size(), 20u);
  EXPECT_EQ(run->kv->size(), 16u);
  ExpectUsable(*run);
}

TEST_F(TransformerTest, NotANumberInTheWeightsIsDataLoss) {
  const TensorId damaged = model_->weights.layers[1].down_proj;
  const auto wrap = [&](WeightSource& source, const Checkpoint& checkpoint) {
    return std::make_unique<DamagedSource>(
        source, damaged, checkpoint.tensors()[damaged].size_bytes);
  };
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.wrap_source = wrap}));
  Recording recording;
  EXPECT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording),
              Fails(absl::StatusCode::kDataLoss, "logits of position 39"));
  EXPECT_EQ(run->kv->size(), 0u);
}

TEST_F(TransformerTest, LogitsComeInOrderOfPosition) {
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.chunk_tokens = 7}));
  Recording recording;
  ASSERT_THAT(run->Forward(ids_, LogitsFor::kEveryToken, recording), IsOk());
  ASSERT_EQ(recording.positions.size(), ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) EXPECT_EQ(recording.positions[i], i);
}

TEST_F(TransformerTest, CountsPassesAndBytes) {
  uint64_t layer_bytes = 0;
  for (const WeightStep& step : model_->weights.Steps()) {
    for (const TensorId id : step.tensors) {
      layer_bytes += model_->checkpoint->tensors()[id].size_bytes;
    }
  }
  const auto& tensors = model_->checkpoint->tensors();
  const uint64_t head_bytes = tensors[model_->weights.head].size_bytes +
                              tensors[model_->weights.final_norm].size_bytes;
  layer_bytes -= head_bytes;
  const uint64_t row_bytes = tensors[model_->weights.embedding].row_bytes();

  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.chunk_tokens = 16}));
  Recording recording;
  ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());
  EXPECT_EQ(run->transformer->num_weight_passes(), 3u);
  EXPECT_EQ(run->transformer->weight_bytes_read(),
            3 * layer_bytes + head_bytes + ids_.size() * row_bytes);
  ASSERT_THAT(run->Forward({1}, LogitsFor::kNone, recording), IsOk());
  EXPECT_EQ(run->transformer->num_weight_passes(), 4u);
  EXPECT_EQ(run->transformer->weight_bytes_read(),
            4 * layer_bytes + head_bytes + (ids_.size() + 1) * row_bytes);
}

TEST_F(TransformerTest, ArenaIsWhatWasForecastAndNeverGrows) {
  ASSERT_OK_AND_ASSIGN(auto run,
                       ModelRun::Create(*model_, {.num_threads = 2,
                                                  .chunk_tokens = 16,
                                                  .context_tokens = 64}));
  ASSERT_OK_AND_ASSIGN(
      const uint64_t forecast,
      Transformer::ActivationBytes(
          model_->config, {.max_chunk_tokens = 16, .max_context_tokens = 64},
          /*num_threads=*/2));
  EXPECT_EQ(run->transformer->arena_bytes(), forecast);
  const uint64_t held = run->account.used_bytes();
  Recording recording;
  ASSERT_THAT(run->Forward(ids_, LogitsFor::kEveryToken, recording), IsOk());
  ASSERT_THAT(run->Forward({1, 2, 3}, LogitsFor::kLastToken, recording),
              IsOk());
  EXPECT_EQ(run->transformer->arena_bytes(), forecast);
  // The cache's pages are rounded up to the system's; nothing else was taken.
  run->kv->Truncate(0);
  EXPECT_EQ(run->account.used_bytes(), held);
}

TEST_F(TransformerTest, StepsAreAnnouncedBeforeUse) {
  using Kind = RecordingSource::Kind;
  std::vector<RecordingSource::Event> events;
  const auto wrap = [&](WeightSource& source, const Checkpoint&) {
    return std::make_unique<RecordingSource>(source, events);
  };
  ASSERT_OK_AND_ASSIGN(
      auto run,
      ModelRun::Create(*model_, {.chunk_tokens = 32, .wrap_source = wrap}));
  Recording recording;
  ASSERT_THAT(run->Forward(ids_, LogitsFor::kLastToken, recording), IsOk());

  const TensorId first = model_->weights.layers[0].attention_norm;
  const TensorId second = model_->weights.layers[1].attention_norm;
  const TensorId head = model_->weights.final_norm;
  std::vector<RecordingSource::Event> steps;
  for (const RecordingSource::Event& event : events) {
    const bool begins_step =
        event.second == first || event.second == second || event.second == head;
    if (begins_step) steps.push_back(event);
  }
  const std::vector<RecordingSource::Event> expected = {
      {Kind::kPrefetch, first},
      {Kind::kPrefetch, second},
      {Kind::kAcquire, first},
      // The first chunk has no logits: after its last layer comes the first
      // again.
      {Kind::kPrefetch, first},
      {Kind::kAcquire, second},
      // The second chunk, with logits.
      {Kind::kPrefetch, first},
      {Kind::kPrefetch, second},
      {Kind::kAcquire, first},
      {Kind::kPrefetch, head},
      {Kind::kAcquire, second},
      {Kind::kPrefetch, first},
      {Kind::kAcquire, head},
  };
  EXPECT_EQ(steps, expected);
}

}  // namespace
}  // namespace lowmem::testing
