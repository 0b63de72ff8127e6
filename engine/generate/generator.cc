// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/generator.h"

#include <chrono>
#include <string>

#include "absl/algorithm/container.h"
#include "engine/generate/stop.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsBetween(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

// Chooses the token that follows the last position computed.
class NextToken final : public ForwardObserver {
 public:
  explicit NextToken(Sampler& sampler) : sampler_(sampler) {}
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> logits) override {
    id_ = sampler_.Choose(logits, pos + 1);
    return absl::OkStatus();
  }
  int32_t id() const { return id_; }

 private:
  Sampler& sampler_;
  int32_t id_ = 0;
};

// Text on its way out: bytes of tokens become whole characters, stop texts are
// found, the caller is told.
class TextOutput {
 public:
  TextOutput(const Tokenizer& tokenizer, const GenerateOptions& options,
             absl::FunctionRef<bool(absl::string_view)> on_text,
             std::string& text)
      : tokenizer_(tokenizer),
        detokenizer_(tokenizer, options.skip_special),
        scanner_(options.stop_texts),
        on_text_(on_text),
        text_(text) {}

  absl::Status Add(int32_t id) {
    // A model may have more rows than its tokenizer has tokens, to fill up a
    // matrix; those stand for no text.
    if (static_cast<uint32_t>(id) >= tokenizer_.vocab_size()) {
      return absl::OkStatus();
    }
    LOWMEM_ASSIGN_OR_RETURN(const std::string piece, detokenizer_.Add(id));
    HandOut(scanner_.Add(piece));
    return absl::OkStatus();
  }

  void Finish() {
    if (scanner_.stopped() || refused_) return;
    std::string rest = scanner_.Add(detokenizer_.Finish());
    if (!scanner_.stopped()) rest += scanner_.Finish();
    HandOut(rest);
  }

  bool stopped() const { return scanner_.stopped(); }
  bool refused() const { return refused_; }

 private:
  void HandOut(absl::string_view text) {
    if (text.empty()) return;
    text_.append(text.data(), text.size());
    if (!on_text_(text)) refused_ = true;
  }

  const Tokenizer& tokenizer_;
  StreamingDetokenizer detokenizer_;
  StopTextScanner scanner_;
  absl::FunctionRef<bool(absl::string_view)> on_text_;
  std::string& text_;
  bool refused_ = false;
};

// Passes and time of one call, split where the first token was chosen.
class CostClock {
 public:
  CostClock(const Transformer& transformer, uint64_t num_prompt_tokens,
            uint64_t num_new_tokens)
      : transformer_(transformer),
        num_prompt_tokens_(num_prompt_tokens),
        num_new_tokens_(num_new_tokens),
        begin_(Clock::now()),
        passes_at_begin_(transformer.num_weight_passes()),
        bytes_at_begin_(transformer.weight_bytes_read()) {}

  void OnToken() {
    last_token_ = Clock::now();
    if (num_tokens_++ > 0) return;
    first_token_ = last_token_;
    passes_at_first_ = transformer_.num_weight_passes();
  }

  void Fill(uint64_t num_generated_tokens, Meter& meter) const {
    meter.prompt_tokens = num_prompt_tokens_;
    meter.generated_tokens = num_generated_tokens;
    meter.weight_bytes_read =
        transformer_.weight_bytes_read() - bytes_at_begin_;
    if (num_tokens_ == 0) return;
    const double prefill_s = SecondsBetween(begin_, first_token_);
    meter.time_to_first_token_s = prefill_s;
    meter.prefill_weight_passes =
        static_cast<double>(passes_at_first_ - passes_at_begin_);
    if (prefill_s > 0) {
      meter.prefill_tokens_per_s =
          static_cast<double>(num_new_tokens_) / prefill_s;
    }
    if (num_tokens_ == 1) return;
    const double num_decoded = static_cast<double>(num_tokens_ - 1);
    meter.decode_weight_passes =
        static_cast<double>(transformer_.num_weight_passes() -
                            passes_at_first_) /
        num_decoded;
    const double decode_s = SecondsBetween(first_token_, last_token_);
    if (decode_s > 0) meter.decode_tokens_per_s = num_decoded / decode_s;
  }

 private:
  const Transformer& transformer_;
  const uint64_t num_prompt_tokens_;
  const uint64_t num_new_tokens_;
  const Clock::time_point begin_;
  const uint64_t passes_at_begin_;
  const uint64_t bytes_at_begin_;
  uint64_t num_tokens_ = 0;  // chosen, an end token included
  Clock::time_point first_token_;
  Clock::time_point last_token_;
  uint64_t passes_at_first_ = 0;
};

}  // namespace

absl::StatusOr<GenerateResult> GenerateTokens(
    const GeneratorInput& input, const GenerateOptions& options,
    const SamplingPlan& plan, std::vector<int32_t>& ids, KvCache& kv,
    absl::FunctionRef<bool(absl::string_view text)> on_text) {
  // The logits of the last token are not kept: it is computed again.
  if (kv.size() == ids.size())
    kv.Truncate(static_cast<uint32_t>(ids.size() - 1));

  GenerateResult result;
  Sampler sampler(plan, ids, input.sampler_buffers);
  NextToken next(sampler);
  TextOutput output(input.tokenizer, options, on_text, result.text);
  CostClock costs(input.transformer, ids.size(), ids.size() - kv.size());

  while (true) {
    if (input.cancel.load(std::memory_order_relaxed)) {
      result.stop_reason = StopReason::kInterrupted;
      break;
    }
    if (options.max_new_tokens >= 0 &&
        result.ids.size() >= static_cast<uint64_t>(options.max_new_tokens)) {
      result.stop_reason = StopReason::kLength;
      break;
    }
    if (ids.size() >= input.max_context_tokens) {
      result.stop_reason = StopReason::kContext;
      break;
    }
    const absl::Status computed = input.transformer.Forward(
        absl::MakeConstSpan(ids).subspan(kv.size()), LogitsFor::kLastToken,
        &input.cancel, kv, next);
    if (absl::IsCancelled(computed)) {
      result.stop_reason = StopReason::kInterrupted;
      break;
    }
    LOWMEM_RETURN_IF_ERROR(computed);
    costs.OnToken();
    if (!options.ignore_eos &&
        absl::c_linear_search(input.eos_ids, next.id())) {
      result.stop_reason = StopReason::kEos;
      break;
    }
    ids.push_back(next.id());
    result.ids.push_back(next.id());
    LOWMEM_RETURN_IF_ERROR(output.Add(next.id()));
    if (output.stopped()) {
      result.stop_reason = StopReason::kStopText;
      break;
    }
    if (output.refused()) {
      result.stop_reason = StopReason::kInterrupted;
      break;
    }
  }
  output.Finish();
  costs.Fill(result.ids.size(), result.meter);
  return result;
}

}  // namespace lowmem
