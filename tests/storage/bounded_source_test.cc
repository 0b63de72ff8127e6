// SPDX-License-Identifier: Apache-2.0
// What holds for every source that follows a residency plan: it gives the bytes
// of the file, whatever the budget and the order of use.
#include "tests/support/bounded_source.h"

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/streamed_model.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;
using testing::BoundedSource;
using testing::BoundedSourceKind;
using testing::Fails;
using testing::IsOk;
using testing::kSmallRing;
using testing::StreamedModel;
using testing::TakePass;
using testing::TakeRows;
using testing::TakeStep;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class BoundedSourceTest : public ::testing::TestWithParam<BoundedSourceKind> {
 protected:
  // Without a source, and the test to be skipped, where this way of reading
  // does not work.
  BoundedSource Open(const StreamedModel& model, double share) {
    auto source =
        GetParam().open(model.checkpoint(), model.PlanFor(share, kSmallRing),
                        kSmallRing, account_);
    if (absl::IsUnimplemented(source.status())) return {};
    EXPECT_THAT(source.status(), IsOk());
    return source.ok() ? *std::move(source) : BoundedSource();
  }

  MemoryAccount account_{"weights", MemoryAccount::kUnlimited, nullptr};
};

#define OPEN_OR_SKIP(source, ...)                             \
  const BoundedSource source = Open(__VA_ARGS__);             \
  if (source.source == nullptr) {                             \
    if (HasFailure()) return;                                 \
    GTEST_SKIP() << "this way of reading does not work here"; \
  }

TEST_P(BoundedSourceTest, GivesTheBytesOfTheFileAtAnyBudget) {
  const StreamedModel model;
  for (int percent = 0; percent <= 104; percent += 8) {
    SCOPED_TRACE(percent);
    OPEN_OR_SKIP(source, model, percent / 100.0);
    for (int pass = 0; pass < 3; ++pass) {
      ASSERT_THAT(TakePass(model, *source), IsOk());
    }
  }
}

TEST_P(BoundedSourceTest, TakersMayAskForFewRows) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.2);
  for (const uint64_t max_rows : {1, 2, 3, 7, 50}) {
    ASSERT_THAT(TakePass(model, *source, max_rows), IsOk()) << max_rows;
  }
}

TEST_P(BoundedSourceTest, AnyOrderOfUseIsRight) {
  const StreamedModel model;
  for (const double share : {0.0, 0.5}) {
    OPEN_OR_SKIP(source, model, share);
    std::mt19937 random(7);
    const size_t num_tensors = model.checkpoint().tensors().size();
    for (int i = 0; i < 400; ++i) {
      const TensorId tensor = static_cast<TensorId>(random() % num_tensors);
      if (model.checkpoint().tensors()[tensor].name == "first") continue;
      const uint64_t num_rows = model.checkpoint().tensors()[tensor].num_rows();
      const uint64_t row = random() % num_rows;
      const uint64_t end = row + 1 + random() % (num_rows - row);
      ASSERT_THAT(TakeRows(model, *source, tensor, row, end, 1 + random() % 20),
                  IsOk())
          << i;
      // What is announced need not come true.
      if (random() % 4 == 0) source->Prefetch(model.steps()[random() % 3]);
    }
    ASSERT_THAT(TakePass(model, *source), IsOk());
  }
}

TEST_P(BoundedSourceTest, PassesMayEndAnywhereAndLeaveOutTheHead) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.1);
  const TensorId embedding = model.Find("embedding");
  for (size_t num_steps = 0; num_steps < 3; ++num_steps) {
    for (const uint64_t row : {96, 0, 50}) {
      ASSERT_THAT(TakeRows(model, *source, embedding, row, row + 1), IsOk());
    }
    for (size_t i = 0; i < num_steps; ++i) {
      ASSERT_THAT(TakeStep(model, *source, model.steps()[i]), IsOk());
    }
    // Broken off within a tensor.
    ASSERT_THAT(TakeRows(model, *source, model.Find("layer1.up"), 0, 40),
                IsOk());
  }
  // The head in tiles: walked again and again.
  for (int tile = 0; tile < 3; ++tile) {
    ASSERT_THAT(TakeStep(model, *source, model.steps().back()), IsOk());
  }
  ASSERT_THAT(TakePass(model, *source), IsOk());
}

// What was announced is no promise: a step that was to be left out may be used.
TEST_P(BoundedSourceTest, AHeadThatWasLeftOutMayBeUsedAllTheSame) {
  const StreamedModel model;
  const std::vector<WeightStep>& steps = model.steps();
  const auto take = [&](WeightSource& source, const WeightStep& step) {
    for (const TensorId tensor : step.tensors) {
      ASSERT_THAT(TakeRows(model, source, tensor, 0,
                           model.checkpoint().tensors()[tensor].num_rows()),
                  IsOk());
    }
  };
  for (const double share : {0.0, 0.6}) {
    OPEN_OR_SKIP(source, model, share);
    for (int pass = 0; pass < 3; ++pass) {
      source->Prefetch(steps[0]);
      source->Prefetch(steps[1]);
      take(*source, steps[0]);
      // As for a chunk without logits.
      source->Prefetch(steps[0]);
      take(*source, steps[1]);
      take(*source, steps.back());
    }
  }
}

TEST_P(BoundedSourceTest, LookingUpRowsLeavesTheReadAheadAlone) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.0);
  ASSERT_THAT(TakePass(model, *source), IsOk());
  const uint64_t before = source.streamed_bytes();
  ASSERT_THAT(TakePass(model, *source), IsOk());
  const uint64_t pass_bytes = source.streamed_bytes() - before;
  for (const uint64_t row : {3, 90, 3}) {
    ASSERT_THAT(TakeRows(model, *source, model.Find("embedding"), row, row + 1),
                IsOk());
    // The head too, as where the embedding is tied to it.
    ASSERT_THAT(TakeRows(model, *source, model.Find("head"), row, row + 1),
                IsOk());
  }
  const uint64_t lookup_bytes = source.streamed_bytes() - before - pass_bytes;
  EXPECT_LE(lookup_bytes, 6 * 2 * GetParam().piece_bytes());
  ASSERT_THAT(TakePass(model, *source), IsOk());
  EXPECT_EQ(source.streamed_bytes(), before + 2 * pass_bytes + lookup_bytes);
}

TEST_P(BoundedSourceTest, MayBeDestroyedAtAnyTime) {
  const StreamedModel model;
  for (int num_rows = 0; num_rows < 64; num_rows += 9) {
    OPEN_OR_SKIP(source, model, 0.0);
    ASSERT_THAT(TakeRows(model, *source, model.Find("layer0.up"), 0, num_rows),
                IsOk());
  }
  EXPECT_EQ(account_.used_bytes(), 0u);
}

TEST_P(BoundedSourceTest, ASecondLeaseOfStreamedRowsIsOurBug) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.0);
  const TensorId up = model.Find("layer0.up");
  const TensorId embedding = model.Find("embedding");
  {
    ASSERT_OK_AND_ASSIGN(const WeightLease first, source->Acquire(up, 0, 2));
    EXPECT_THAT(source->Acquire(up, 2, 2),
                Fails(absl::StatusCode::kInternal, "leased"));
    ASSERT_OK_AND_ASSIGN(const WeightLease row,
                         source->Acquire(embedding, 5, 1));
    EXPECT_THAT(source->Acquire(embedding, 6, 1),
                Fails(absl::StatusCode::kInternal, "leased"));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(first.data()), 8192),
              model.Bytes(up, 0, 2));
  }
  EXPECT_THAT(TakePass(model, *source), IsOk());
}

TEST_P(BoundedSourceTest, AFileThatWasWrittenIsNoticedAtTheNextStep) {
  const StreamedModel model;
  OPEN_OR_SKIP(source, model, 0.1);
  ASSERT_THAT(TakeStep(model, *source, model.steps()[0]), IsOk());
  fs::last_write_time(model.path(),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(TakeStep(model, *source, model.steps()[1]),
              Fails(kUnavailable, "written or replaced"));
  EXPECT_THAT(TakeStep(model, *source, model.steps()[1]),
              Fails(kUnavailable, "written or replaced"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, BoundedSourceTest,
    ::testing::Values(
        testing::StreamKind<IoMethod::kUring>("Uring"),
        testing::StreamKind<IoMethod::kDirectPread>("DirectPread"),
        testing::StreamKind<IoMethod::kBuffered>("Buffered"),
        testing::MmapKind()),
    [](const auto& param) -> std::string { return param.param.name; });

}  // namespace
}  // namespace lowmem
