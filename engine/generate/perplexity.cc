// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/perplexity.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Adds up the likelihood of each position's successor.
class LikelihoodObserver final : public ForwardObserver {
 public:
  // `ids` from the start of the sequence that is computed.
  LikelihoodObserver(absl::Span<const int32_t> ids, double& sum)
      : ids_(ids), sum_(sum) {}
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> logits) override {
    sum_ += NegativeLogLikelihood(logits, ids_[pos + 1]);
    return absl::OkStatus();
  }

 private:
  absl::Span<const int32_t> ids_;
  double& sum_;
};

absl::Status CheckOptions(uint32_t window_tokens, uint32_t stride_tokens,
                          uint32_t max_context_tokens) {
  if (window_tokens < 2 || window_tokens > max_context_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("window of tokens: out of range; expected 2 to ",
                     max_context_tokens, ", got ", window_tokens));
  }
  if (stride_tokens < 1 || stride_tokens > window_tokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("stride: out of range; expected 1 to ", window_tokens,
                     ", got ", stride_tokens));
  }
  return absl::OkStatus();
}

}  // namespace

double NegativeLogLikelihood(absl::Span<const float> logits, int32_t id) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  // In this order: where the logits are huge the logarithm would be lost in
  // them.
  return std::log(sum) + (largest - logits[id]);
}

absl::StatusOr<PerplexityResult> MeasurePerplexity(
    EngineState& engine, absl::Span<const int32_t> ids,
    const PerplexityOptions& options, const std::atomic<bool>* cancel,
    absl::FunctionRef<void(uint64_t done_tokens, uint64_t total_tokens)>
        on_progress) {
  const uint32_t window_tokens = options.window_tokens != 0
                                     ? options.window_tokens
                                     : engine.max_context_tokens();
  const uint32_t stride_tokens = options.stride_tokens != 0
                                     ? options.stride_tokens
                                     : std::max(window_tokens / 2, 1u);
  LOWMEM_RETURN_IF_ERROR(
      CheckOptions(window_tokens, stride_tokens, engine.max_context_tokens()));
  if (ids.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "text is too short; expected at least 2 tokens, got ", ids.size()));
  }
  for (size_t i = 0; i < ids.size(); i += window_tokens) {
    LOWMEM_RETURN_IF_ERROR(engine.CheckIds(
        0, ids.subspan(i, std::min<size_t>(window_tokens, ids.size() - i))));
  }

  const std::lock_guard<std::mutex> lock(engine.mutex());
  const std::unique_ptr<KvCache> kv = engine.NewKvCache();
  PerplexityResult result;
  double sum = 0;
  size_t num_seen =
      0;  // tokens of the text that were predicted or context only
  for (size_t begin = 0; num_seen < ids.size(); begin += stride_tokens) {
    const absl::Span<const int32_t> window =
        ids.subspan(begin, std::min<size_t>(window_tokens, ids.size() - begin));
    // The first token to be predicted, counted from the window's start.
    const size_t first = std::max<size_t>(num_seen - begin, 1);
    if (first < window.size()) {
      kv->Truncate(0);
      LikelihoodObserver observer(window, sum);
      if (first > 1) {
        LOWMEM_RETURN_IF_ERROR(engine.transformer().Forward(
            window.first(first - 1), LogitsFor::kNone, cancel, *kv, observer));
      }
      LOWMEM_RETURN_IF_ERROR(engine.transformer().Forward(
          window.subspan(first - 1, window.size() - first),
          LogitsFor::kEveryToken, cancel, *kv, observer));
      result.num_tokens += window.size() - first;
    }
    num_seen = begin + window.size();
    on_progress(num_seen, ids.size());
  }
  result.nll = sum / static_cast<double>(result.num_tokens);
  result.perplexity = std::exp(result.nll);
  return result;
}

}  // namespace lowmem
