// SPDX-License-Identifier: Apache-2.0
// Sessions: sequences in pieces, several at once, cancellation, scores, and
// what callers may do wrong.
#include "engine/generate/engine_session.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lowmem/engine.h"
#include "tests/engine/generate/engine_fixture.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Continue;
using ::lowmem::testing::Fails;
using ::lowmem::testing::IsOk;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

using EngineSessionTest = ::lowmem::testing::EngineTest;

TEST_F(EngineSessionTest, AnAnswerInPiecesIsTheAnswerInOne) {
  GenerateOptions options = Tokens(24);
  options.sampling.temperature = 0.9f;
  options.sampling.seed = 3;
  options.ignore_eos = true;
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult whole,
                       session_->Generate(options, Continue));
  ASSERT_THAT(session_->Truncate(golden_[0].ids.size()), IsOk());
  std::vector<int32_t> joined;
  for (int64_t piece_tokens : {1, 10, 13}) {
    options.max_new_tokens = piece_tokens;
    ASSERT_OK_AND_ASSIGN(const GenerateResult piece,
                         session_->Generate(options, Continue));
    joined.insert(joined.end(), piece.ids.begin(), piece.ids.end());
  }
  EXPECT_EQ(joined, whole.ids);
}

TEST_F(EngineSessionTest, AReusedSequenceGivesWhatAFreshOneDoes) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult first,
                       session_->Generate(Tokens(5), Continue));
  ASSERT_THAT(session_->AppendIds(golden_[1].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult reused,
                       session_->Generate(Tokens(10), Continue));

  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> fresh,
                       engine_->NewSession());
  std::vector<int32_t> history = golden_[0].ids;
  history.insert(history.end(), first.ids.begin(), first.ids.end());
  history.insert(history.end(), golden_[1].ids.begin(), golden_[1].ids.end());
  ASSERT_THAT(fresh->AppendIds(history), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult one_shot,
                       fresh->Generate(Tokens(10), Continue));
  EXPECT_EQ(reused.ids, one_shot.ids);
  EXPECT_EQ(reused.meter.prompt_tokens, history.size());
}

TEST_F(EngineSessionTest, SessionsDoNotMix) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Session> other,
                       engine_->NewSession());
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_THAT(other->AppendIds(golden_[1].ids), IsOk());
  std::vector<int32_t> answers[2];
  for (int i = 0; i < 8; ++i) {
    for (Session* session : {session_.get(), other.get()}) {
      ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                           session->Generate(Tokens(3), Continue));
      std::vector<int32_t>& answer = answers[session == other.get()];
      answer.insert(answer.end(), result.ids.begin(), result.ids.end());
    }
  }
  EXPECT_EQ(answers[0], golden_[0].greedy);
  EXPECT_EQ(answers[1], golden_[1].greedy);
}

TEST_F(EngineSessionTest, SessionsOfTwoThreadsTakeTurns) {
  std::vector<int32_t> answers[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      absl::StatusOr<std::unique_ptr<Session>> session = engine_->NewSession();
      ASSERT_THAT(session, IsOk());
      ASSERT_THAT((*session)->AppendIds(golden_[i].ids), IsOk());
      absl::StatusOr<GenerateResult> result =
          (*session)->Generate(Tokens(24), Continue);
      ASSERT_THAT(result, IsOk());
      answers[i] = result->ids;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answers[0], golden_[0].greedy);
  EXPECT_EQ(answers[1], golden_[1].greedy);
}

TEST_F(EngineSessionTest, CancelFromAnotherThreadEndsAnEndlessGeneration) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  GenerateOptions options = Tokens(-1);
  options.ignore_eos = true;
  std::atomic<bool> started{false};
  std::atomic<bool> cancelled{false};
  std::thread canceller([&] {
    while (!started) std::this_thread::yield();
    session_->Cancel();
    cancelled = true;
  });
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(options, [&](absl::string_view) {
                         started = true;
                         while (!cancelled) std::this_thread::yield();
                         return true;
                       }));
  canceller.join();
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_LT(result.ids.size(), 10);
  // What was completed is kept, and the next call is not cancelled.
  options.max_new_tokens = 3;
  ASSERT_OK_AND_ASSIGN(const GenerateResult more,
                       session_->Generate(options, Continue));
  EXPECT_EQ(more.stop_reason, StopReason::kLength);
}

TEST_F(EngineSessionTest, CancelFromTheCallbackEndsIt) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), [&](absl::string_view) {
                         session_->Cancel();
                         return true;
                       }));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_THAT(result.ids, Not(IsEmpty()));
  EXPECT_LT(result.ids.size(), 24);
}

// Nothing is lost between a caller's last look at its own flag and the call.
TEST_F(EngineSessionTest, CancelBeforeACallEndsItAtOnceAndNoOther) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  const auto no_text = [](absl::string_view) {
    ADD_FAILURE() << "text after Cancel";
    return true;
  };
  for (const int64_t max_new_tokens : {24, 0, -1}) {
    session_->Cancel();
    session_->Cancel();
    ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                         session_->Generate(Tokens(max_new_tokens), no_text));
    EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
    EXPECT_THAT(result.ids, IsEmpty());
    EXPECT_EQ(result.meter.weight_bytes_read, 0);
  }
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.ids, golden_[0].greedy);
}

TEST_F(EngineSessionTest, CancelOutlastsACallThatFailedForAnotherReason) {
  session_->Cancel();
  EXPECT_THAT(session_->Generate(Tokens(24), Continue),
              Fails(absl::StatusCode::kInvalidArgument, "prompt is empty"));
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
}

TEST_F(EngineSessionTest, CancelBeforeScoreEndsItAndNoOther) {
  int num_positions = 0;
  const auto count = [&](uint64_t, absl::Span<const float>) {
    ++num_positions;
    return absl::OkStatus();
  };
  session_->Cancel();
  EXPECT_THAT(session_->Score(count), Fails(absl::StatusCode::kCancelled, ""));
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  session_->Cancel();
  EXPECT_THAT(session_->Score(count), Fails(absl::StatusCode::kCancelled, ""));
  EXPECT_EQ(num_positions, 0);
  EXPECT_THAT(session_->Score(count), IsOk());
  EXPECT_EQ(num_positions, golden_[0].ids.size());
}

TEST_F(EngineSessionTest, MisuseIsRefusedAndChangesNothing) {
  EXPECT_THAT(session_->Generate({}, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "prompt is empty"));
  for (int32_t id : {-1, 320, std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(session_->AppendIds({1, id}),
                Fails(absl::StatusCode::kInvalidArgument,
                      absl::StrCat("expected 0 to 319, got ", id)));
  }
  EXPECT_THAT(session_->AppendText("\xff"),
              Fails(absl::StatusCode::kInvalidArgument, ""));
  EXPECT_THAT(session_->ids(), IsEmpty());
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  EXPECT_THAT(session_->Generate(Tokens(-2), Continue),
              Fails(absl::StatusCode::kInvalidArgument, "max_new_tokens"));
  GenerateOptions options;
  options.stop_texts = {""};
  EXPECT_THAT(session_->Generate(options, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "stop_texts"));
  options = {};
  options.sampling.top_p = 0.0f;
  EXPECT_THAT(session_->Generate(options, Continue),
              Fails(absl::StatusCode::kInvalidArgument, "top_p"));
  EXPECT_THAT(session_->Truncate(golden_[0].ids.size() + 1),
              Fails(absl::StatusCode::kOutOfRange, "truncate"));
  EXPECT_THAT(session_->ids(), ElementsAreArray(golden_[0].ids));
}

TEST_F(EngineSessionTest, ScoreGivesTheLogitsOfWhatIsNotYetComputed) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  std::vector<uint64_t> positions;
  int32_t best = -1;
  const auto note = [&](uint64_t pos, absl::Span<const float> logits) {
    positions.push_back(pos);
    best = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                                logits.begin());
    return absl::OkStatus();
  };
  ASSERT_THAT(session_->Score(note), IsOk());
  ASSERT_EQ(positions.size(), golden_[0].ids.size());
  for (size_t i = 0; i < positions.size(); ++i) EXPECT_EQ(positions[i], i);
  EXPECT_EQ(best, golden_[0].greedy[0]);
  positions.clear();
  ASSERT_THAT(session_->Score(note), IsOk());
  EXPECT_THAT(positions, IsEmpty());
  // Generation goes on from a scored sequence.
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       session_->Generate(Tokens(24), Continue));
  EXPECT_EQ(result.ids, golden_[0].greedy);
}

TEST_F(EngineSessionTest, ScoreEndsWithWhatTheCallbackReturns) {
  ASSERT_THAT(session_->AppendIds(golden_[0].ids), IsOk());
  EXPECT_THAT(session_->Score([](uint64_t pos, absl::Span<const float>) {
    return pos == 2 ? absl::AbortedError("enough") : absl::OkStatus();
  }),
              Fails(absl::StatusCode::kAborted, "enough"));
}

TEST(StopReasonNameTest, NamesAreThoseOfTheOutput) {
  EXPECT_EQ(StopReasonName(StopReason::kEos), "eos");
  EXPECT_EQ(StopReasonName(StopReason::kStopText), "stop");
  EXPECT_EQ(StopReasonName(StopReason::kLength), "length");
  EXPECT_EQ(StopReasonName(StopReason::kContext), "context");
  EXPECT_EQ(StopReasonName(StopReason::kInterrupted), "interrupted");
}

}  // namespace
}  // namespace lowmem
