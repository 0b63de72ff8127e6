// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/engine_session.h"

#include <algorithm>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "engine/generate/generator.h"
#include "engine/generate/sampling_plan.h"
#include "engine/generate/stop.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

class LogitsObserver final : public ForwardObserver {
 public:
  explicit LogitsObserver(
      absl::FunctionRef<absl::Status(uint64_t, absl::Span<const float>)>
          on_logits)
      : on_logits_(on_logits) {}
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> logits) override {
    return on_logits_(pos, logits);
  }

 private:
  absl::FunctionRef<absl::Status(uint64_t, absl::Span<const float>)> on_logits_;
};

absl::Status ValidateGenerate(const GenerateOptions& options) {
  if (options.max_new_tokens < -1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_new_tokens: out of range; expected at least -1, got ",
                     options.max_new_tokens));
  }
  return ValidateStopTexts(options.stop_texts);
}

}  // namespace

absl::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEos:
      return "eos";
    case StopReason::kStopText:
      return "stop";
    case StopReason::kLength:
      return "length";
    case StopReason::kContext:
      return "context";
    case StopReason::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

EngineSession::EngineSession(EngineState& engine)
    : engine_(engine), kv_(engine.NewKvCache()) {}

absl::Status EngineSession::AppendIds(absl::Span<const int32_t> ids) {
  LOWMEM_RETURN_IF_ERROR(engine_.CheckIds(ids_.size(), ids));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status EngineSession::AppendText(absl::string_view text,
                                       bool parse_special) {
  const absl::StatusOr<std::vector<int32_t>> ids =
      engine_.EncodeNext(ids_.size(), text, parse_special, &cancel_);
  if (absl::IsCancelled(ids.status())) ForgetCancel();
  if (!ids.ok()) return ids.status();
  return AppendIds(*ids);
}

absl::StatusOr<GenerateResult> EngineSession::Generate(
    const GenerateOptions& options,
    absl::FunctionRef<bool(absl::string_view text)> on_text) {
  LOWMEM_RETURN_IF_ERROR(ValidateGenerate(options));
  LOWMEM_ASSIGN_OR_RETURN(
      const SamplingPlan plan,
      PlanSampling(options.sampling, engine_.sampling_defaults()));
  if (ids_.empty()) {
    return absl::InvalidArgumentError(
        "prompt is empty and the model has no token that begins a text; "
        "expected "
        "at least one token");
  }
  const std::lock_guard<std::mutex> lock(engine_.mutex());
  const GeneratorInput input{engine_.transformer(),        engine_.tokenizer(),
                             engine_.sampler_buffers(),    engine_.eos_ids(),
                             engine_.max_context_tokens(), cancel_};
  LOWMEM_ASSIGN_OR_RETURN(
      GenerateResult result,
      GenerateTokens(input, options, plan, ids_, *kv_, on_text));
  if (result.stop_reason == StopReason::kInterrupted) ForgetCancel();
  engine_.FillMemory(result.meter);
  result.meter.kv_bytes = kv_->allocated_bytes();
  return result;
}

absl::Status EngineSession::Score(
    absl::FunctionRef<absl::Status(uint64_t pos,
                                   absl::Span<const float> logits)>
        on_logits) {
  const std::lock_guard<std::mutex> lock(engine_.mutex());
  LogitsObserver observer(on_logits);
  const absl::Span<const int32_t> new_ids =
      absl::MakeConstSpan(ids_).subspan(kv_->size());
  absl::Status status;
  if (cancel_.load(std::memory_order_relaxed)) {
    status = absl::CancelledError("interrupted");
  } else if (!new_ids.empty()) {
    status = engine_.transformer().Forward(new_ids, LogitsFor::kEveryToken,
                                           &cancel_, *kv_, observer);
  }
  if (absl::IsCancelled(status)) ForgetCancel();
  return status;
}

absl::Status EngineSession::Truncate(uint64_t num_tokens) {
  if (num_tokens > ids_.size()) {
    return absl::OutOfRangeError(absl::StrCat("truncate: expected at most ",
                                              ids_.size(), " tokens, got ",
                                              num_tokens));
  }
  ids_.resize(num_tokens);
  kv_->Truncate(std::min(kv_->size(), static_cast<uint32_t>(num_tokens)));
  return absl::OkStatus();
}

}  // namespace lowmem
