// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/generator.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace lowmem {
namespace {

using ::lowmem::testing::Fails;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Answers with the tokens of a script, whatever was asked: script[i] is the
// token at position i.
class ScriptedTransformer final : public Transformer {
 public:
  ScriptedTransformer(std::vector<int32_t> script, uint32_t vocab_size)
      : script_(std::move(script)), logits_(vocab_size, 0.0f) {}

  absl::Status Forward(absl::Span<const int32_t> ids, LogitsFor logits_for,
                       const std::atomic<bool>* cancel, KvCache& kv,
                       ForwardObserver& observer) override {
    forwarded.push_back({ids.begin(), ids.end()});
    if (forwarded.size() == fail_at_call)
      return absl::UnavailableError("disk gone");
    if (on_forward) on_forward(forwarded.size());
    if (cancel->load()) return absl::CancelledError("cancelled");
    if (absl::Status status = kv.Reserve(ids.size()); !status.ok())
      return status;
    kv.Advance(ids.size());
    ++num_passes_;
    EXPECT_EQ(logits_for, LogitsFor::kLastToken);
    const int32_t next = script_.at(kv.size());
    logits_[next] = 1.0f;
    const absl::Status status = observer.OnLogits(kv.size() - 1, logits_);
    logits_[next] = 0.0f;
    return status;
  }
  uint64_t num_weight_passes() const override { return num_passes_; }
  uint64_t weight_bytes_read() const override { return 1000 * num_passes_; }
  uint64_t arena_bytes() const override { return 0; }

  std::vector<std::vector<int32_t>> forwarded;
  std::function<void(size_t call)> on_forward;
  size_t fail_at_call = 0;  // counted from 1

 private:
  std::vector<int32_t> script_;
  std::vector<float> logits_;
  uint64_t num_passes_ = 0;
};

// Tokens by their bytes.
class ListTokenizer final : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> pieces)
      : pieces_(std::move(pieces)) {}
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view, const EncodeOptions&) const override {
    return absl::UnimplementedError("not used here");
  }
  std::string TokenBytes(int32_t id) const override { return pieces_[id]; }
  uint32_t vocab_size() const override {
    return static_cast<uint32_t>(pieces_.size());
  }
  bool IsSpecial(int32_t id) const override {
    return pieces_[id].size() > 2 && pieces_[id].substr(0, 2) == "<|";
  }
  std::optional<int32_t> FindToken(absl::string_view) const override {
    return std::nullopt;
  }
  std::optional<int32_t> bos_id() const override { return std::nullopt; }
  const std::vector<int32_t>& eos_ids() const override { return no_ids_; }

 private:
  const std::vector<std::string> pieces_;
  const std::vector<int32_t> no_ids_;
};

constexpr uint32_t kVocabSize = 12;  // two rows more than there are tokens
enum : int32_t {
  kA,
  kB,
  kC,
  kSt,
  kOp,
  kHigh,
  kLow,
  kEos,
  kOtherEos,
  kSpecial,
  kNoToken
};

class GeneratorTest : public ::testing::Test {
 protected:
  GeneratorTest() {
    absl::StatusOr<SamplerBuffers> created =
        SamplerBuffers::Create(kVocabSize, account_);
    buffers_.emplace(*std::move(created));
  }

  // The prompt is {kA}; `answer` follows it.
  absl::StatusOr<GenerateResult> Generate(std::vector<int32_t> answer,
                                          const GenerateOptions& options = {}) {
    std::vector<int32_t> script = {kA};
    script.insert(script.end(), answer.begin(), answer.end());
    transformer_ =
        std::make_unique<ScriptedTransformer>(std::move(script), kVocabSize);
    ids_ = {kA};
    return Continue(options);
  }

  absl::StatusOr<GenerateResult> Continue(const GenerateOptions& options = {}) {
    transformer_->on_forward = on_forward_;
    transformer_->fail_at_call = fail_at_call_;
    pieces_out_.clear();
    const GeneratorInput input{*transformer_, tokenizer_,          *buffers_,
                               eos_ids_,      max_context_tokens_, cancel_};
    return GenerateTokens(input, options, plan_, ids_, kv_,
                          [&](absl::string_view text) {
                            pieces_out_.emplace_back(text);
                            return on_text_ ? on_text_(text) : true;
                          });
  }

  MemoryAccount account_{"test", MemoryAccount::kUnlimited, nullptr};
  ListTokenizer tokenizer_{{"a", "b", "c", "st", "op", "\xc3", "\xa9",
                            "<|end|>", "<|stop|>", "<|special|>"}};
  const std::vector<int32_t> eos_ids_ = {kEos, kOtherEos};
  std::optional<SamplerBuffers> buffers_;
  SamplingPlan plan_;
  uint32_t max_context_tokens_ = 64;
  KvCache kv_{KvShape{1, 1, 4}, 64, account_};
  std::atomic<bool> cancel_{false};
  std::unique_ptr<ScriptedTransformer> transformer_;
  std::vector<int32_t> ids_;
  std::vector<std::string> pieces_out_;
  std::function<bool(absl::string_view)> on_text_;
  std::function<void(size_t)> on_forward_;
  size_t fail_at_call_ = 0;
};

TEST_F(GeneratorTest, AnEndTokenEndsAndIsNotPartOfTheSequence) {
  for (int32_t eos : {kEos, kOtherEos}) {
    kv_.Truncate(0);
    ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB, kC, eos}));
    EXPECT_EQ(result.stop_reason, StopReason::kEos);
    EXPECT_THAT(result.ids, ElementsAre(kB, kC));
    EXPECT_EQ(result.text, "bc");
    EXPECT_THAT(ids_, ElementsAre(kA, kB, kC));
  }
}

TEST_F(GeneratorTest, IgnoredEndTokensAreTokensLikeOthers) {
  GenerateOptions options;
  options.ignore_eos = true;
  options.max_new_tokens = 3;
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kEos, kC, kC}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_THAT(result.ids, ElementsAre(kB, kEos, kC));
  EXPECT_EQ(result.text, "bc");
}

TEST_F(GeneratorTest, SpecialTokensAreShownWhenAskedFor) {
  GenerateOptions options;
  options.skip_special = false;
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kSpecial, kEos}, options));
  EXPECT_EQ(result.text, "b<|special|>");
}

TEST_F(GeneratorTest, LengthEndsWithoutAnotherPass) {
  GenerateOptions options;
  options.max_new_tokens = 2;
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kC}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_EQ(transformer_->forwarded.size(), 2);
}

TEST_F(GeneratorTest, NoTokensAreNoWork) {
  GenerateOptions options;
  options.max_new_tokens = 0;
  ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kLength);
  EXPECT_THAT(transformer_->forwarded, IsEmpty());
  EXPECT_EQ(result.meter.time_to_first_token_s, std::nullopt);
  EXPECT_EQ(result.meter.prefill_weight_passes, std::nullopt);
}

TEST_F(GeneratorTest, TheContextEndsWhenItIsFull) {
  max_context_tokens_ = 4;
  GenerateOptions options;
  options.max_new_tokens = -1;
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kC, kB}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kContext);
  EXPECT_THAT(ids_, ElementsAre(kA, kB, kC, kB));
  ASSERT_OK_AND_ASSIGN(const GenerateResult again, Continue(options));
  EXPECT_EQ(again.stop_reason, StopReason::kContext);
  EXPECT_THAT(again.ids, IsEmpty());
}

TEST_F(GeneratorTest, AStopTextAcrossTokensEndsBeforeIt) {
  GenerateOptions options;
  options.stop_texts = {"bstop"};
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kC, kB, kSt, kOp, kC}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kStopText);
  EXPECT_EQ(result.text, "c");
  EXPECT_THAT(pieces_out_, ElementsAre("c"));
  EXPECT_THAT(result.ids, ElementsAre(kC, kB, kSt, kOp));
}

TEST_F(GeneratorTest, HeldTextIsHandedOutAtTheEnd) {
  GenerateOptions options;
  options.stop_texts = {"stoc"};
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kC, kSt, kEos}, options));
  EXPECT_EQ(result.stop_reason, StopReason::kEos);
  EXPECT_EQ(result.text, "cst");
  EXPECT_THAT(pieces_out_, ElementsAre("c", "st"));
}

TEST_F(GeneratorTest, CharactersAreHandedOutWhole) {
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kHigh, kLow, kHigh, kEos}));
  EXPECT_THAT(pieces_out_, ElementsAre("\xc3\xa9", "\xef\xbf\xbd"));
  EXPECT_EQ(result.text, "\xc3\xa9\xef\xbf\xbd");
}

TEST_F(GeneratorTest, RowsWithoutATokenGiveNoText) {
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kNoToken, kC, kEos}));
  EXPECT_THAT(result.ids, ElementsAre(kB, kNoToken, kC));
  EXPECT_EQ(result.text, "bc");
}

TEST_F(GeneratorTest, TheCallbackEndsIt) {
  on_text_ = [](absl::string_view text) { return text != "c"; };
  ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB, kC, kB, kB}));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_EQ(result.text, "bc");
  EXPECT_THAT(ids_, ElementsAre(kA, kB, kC));
}

TEST_F(GeneratorTest, CancelBetweenTokensEndsIt) {
  on_text_ = [&](absl::string_view text) {
    if (text == "c") cancel_ = true;
    return true;
  };
  ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB, kC, kB, kB}));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_THAT(result.ids, ElementsAre(kB, kC));
  EXPECT_EQ(transformer_->forwarded.size(), 2);
}

TEST_F(GeneratorTest, CancelDuringThePromptGivesNothingAndNoFigures) {
  on_forward_ = [&](size_t) { cancel_ = true; };
  ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB}));
  EXPECT_EQ(result.stop_reason, StopReason::kInterrupted);
  EXPECT_THAT(result.ids, IsEmpty());
  EXPECT_EQ(result.meter.prefill_tokens_per_s, std::nullopt);
}

TEST_F(GeneratorTest, AfterAnInterruptionItGoesOnWhereItWas) {
  on_forward_ = [&](size_t call) { cancel_ = call == 3; };
  ASSERT_OK_AND_ASSIGN(const GenerateResult first,
                       Generate({kB, kC, kB, kEos}));
  EXPECT_EQ(first.stop_reason, StopReason::kInterrupted);
  EXPECT_EQ(first.text, "bc");
  on_forward_ = nullptr;
  cancel_ = false;  // as a session does when a call begins
  ASSERT_OK_AND_ASSIGN(const GenerateResult second, Continue());
  EXPECT_EQ(second.stop_reason, StopReason::kEos);
  EXPECT_EQ(second.text, "b");
}

TEST_F(GeneratorTest, AFailureKeepsWhatWasGenerated) {
  fail_at_call_ = 3;
  EXPECT_THAT(Generate({kB, kC, kB, kEos}),
              Fails(absl::StatusCode::kUnavailable, "disk gone"));
  EXPECT_THAT(ids_, ElementsAre(kA, kB, kC));
  EXPECT_THAT(pieces_out_, ElementsAre("b", "c"));
  fail_at_call_ = 0;
  ASSERT_OK_AND_ASSIGN(const GenerateResult rest, Continue());
  EXPECT_EQ(rest.text, "b");
}

TEST_F(GeneratorTest, OnlyWhatIsNewIsComputed) {
  ASSERT_OK_AND_ASSIGN(const GenerateResult first,
                       Generate({kB, kEos, kC, kB, kEos}));
  EXPECT_THAT(transformer_->forwarded,
              ElementsAre(ElementsAre(kA), ElementsAre(kB)));
  ids_.push_back(kC);
  ids_.push_back(kC);
  transformer_->forwarded.clear();
  ASSERT_OK_AND_ASSIGN(const GenerateResult second, Continue());
  EXPECT_THAT(transformer_->forwarded,
              ElementsAre(ElementsAre(kC, kC), ElementsAre(kB)));
  EXPECT_EQ(second.meter.prompt_tokens, 4);
}

TEST_F(GeneratorTest, ASequenceThatIsAllComputedHasItsLastTokenComputedAgain) {
  ASSERT_OK_AND_ASSIGN(const GenerateResult first, Generate({kB, kEos, kEos}));
  ASSERT_EQ(kv_.size(), ids_.size());
  transformer_->forwarded.clear();
  ASSERT_OK_AND_ASSIGN(const GenerateResult second, Continue());
  EXPECT_EQ(second.stop_reason, StopReason::kEos);
  EXPECT_THAT(transformer_->forwarded, ElementsAre(ElementsAre(kB)));
}

TEST_F(GeneratorTest, PassesAndTokensAreCounted) {
  ASSERT_OK_AND_ASSIGN(const GenerateResult result, Generate({kB, kC, kEos}));
  EXPECT_EQ(result.meter.prompt_tokens, 1);
  EXPECT_EQ(result.meter.generated_tokens, 2);
  EXPECT_EQ(result.meter.prefill_weight_passes, 1.0);
  EXPECT_EQ(result.meter.decode_weight_passes, 1.0);
  EXPECT_EQ(result.meter.weight_bytes_read, 3000);
  EXPECT_GT(result.meter.time_to_first_token_s, 0.0);
  EXPECT_GT(result.meter.decode_tokens_per_s, 0.0);
}

TEST_F(GeneratorTest, PenaltiesCountThisAnswerOnly) {
  plan_.penalties.presence = 0.9f;
  // The script's token leads by 1, so the penalty of 0.9 does not change it; a
  // second occurrence costs no more.
  ASSERT_OK_AND_ASSIGN(const GenerateResult result,
                       Generate({kB, kB, kB, kEos}));
  EXPECT_EQ(result.text, "bbb");
  // 1.1 does: the first of all others, kA, is chosen then.
  plan_.penalties.presence = 1.1f;
  kv_.Truncate(0);
  GenerateOptions options;
  options.max_new_tokens = 2;
  ASSERT_OK_AND_ASSIGN(const GenerateResult other,
                       Generate({kB, kB, kB}, options));
  EXPECT_THAT(other.ids, ElementsAre(kB, kA));
}

}  // namespace
}  // namespace lowmem
