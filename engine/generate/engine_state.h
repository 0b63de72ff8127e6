// SPDX-License-Identifier: Apache-2.0
// One opened model with everything that sessions share: files, configuration,
// tokenizer, weights, activations and the memory accounts they are charged to.
// Internal: Engine is the public face; trace and perplexity use this directly.

#ifndef LOWMEM_ENGINE_GENERATE_ENGINE_STATE_H_
#define LOWMEM_ENGINE_GENERATE_ENGINE_STATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cache/kv_cache.h"
#include "engine/generate/generation_config.h"
#include "engine/generate/mode_choice.h"
#include "engine/generate/posix_sigbus_guard.h"
#include "engine/generate/sampler.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/nn/transformer.h"
#include "engine/text/tokenizer.h"
#include "lowmem/meter.h"
#include "lowmem/options.h"
#include "storage/base/memory_account.h"
#include "storage/base/memory_meter.h"
#include "storage/base/thread_pool.h"
#include "storage/checkpoint.h"
#include "storage/stream_source.h"
#include "storage/weight_source.h"

namespace lowmem {

// Thread safety: const methods are thread-safe. Whoever uses transformer() or
// sampler_buffers() holds mutex().
// Lifetime: outlives every KvCache that is charged to the budget.
// Memory: one account a kind, all below one with the budget as its limit.
class EngineState {
 public:
  // As Engine::Open. Order: headers, configuration, choice of mode with the
  // check of the budget, tokenizer, and only then weights.
  static absl::StatusOr<std::unique_ptr<EngineState>> Open(
      const EngineOptions& options);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  const SamplingOptions& sampling_defaults() const {
    return sampling_defaults_;
  }
  const ModeChoice& mode_choice() const { return mode_choice_; }
  uint32_t max_context_tokens() const { return mode_choice_.context_tokens(); }

  std::mutex& mutex() { return mutex_; }
  Transformer& transformer() { return *transformer_; }
  SamplerBuffers& sampler_buffers() { return *sampler_buffers_; }
  // For what is not one of the kinds below, for a while.
  MemoryAccount& account() { return account_; }

  // Ids of a text that follows a sequence of `num_tokens`; with what the model
  // puts in front when there is none. Their number is not checked beyond what
  // the model's context, or the one asked for, allows. What it takes beside the
  // result is charged to the budget's part for text.
  // Errors: those of Tokenizer::Encode; kOutOfRange as CheckIds.
  // REQUIRES: num_tokens <= max_context_tokens().
  absl::StatusOr<std::vector<int32_t>> EncodeNext(
      uint64_t num_tokens, absl::string_view text, bool parse_special,
      const std::atomic<bool>* cancel);
  // Within that part: for Encode of texts that belong to no sequence.
  MemoryAccount& text_account() { return *text_account_; }

  // Whether `new_ids` may follow a sequence of `num_tokens`.
  // Errors: kInvalidArgument for an id outside the vocabulary; kOutOfRange when
  // the context cannot hold them, kResourceExhausted when it is the budget that
  // makes the context too short. REQUIRES: num_tokens <= max_context_tokens().
  absl::Status CheckIds(uint64_t num_tokens,
                        absl::Span<const int32_t> new_ids) const;

  // An empty cache of max_context_tokens(), charged to the budget.
  std::unique_ptr<KvCache> NewKvCache();

  // kv_bytes of the meter are those of all sessions; what belongs to one
  // Generate call is left as it is. Counters of the system start at Open.
  void FillMemory(Meter& meter) const;
  // The same of an engine that only one piece of work was done with, a prompt
  // of so many tokens: all that was computed, and the most of keys and values.
  Meter MeterOfPrompt(uint64_t num_tokens) const;

 private:
  EngineState(std::optional<uint64_t> ram_budget_bytes, KvDtype kv_dtype);
  absl::Status ReadModel(const EngineOptions& options);
  // With what is known so far: the second time, what the sequence needs.
  absl::Status Choose(const EngineOptions& options,
                      const std::optional<SequenceNeed>& need);
  absl::Status LoadTokens();
  absl::StatusOr<std::optional<SequenceNeed>> AskForNeed(
      const EngineOptions& options);
  absl::StatusOr<std::vector<int32_t>> EncodeInto(
      MemoryAccount& account, uint64_t num_tokens, uint64_t max_tokens,
      absl::string_view text, bool parse_special,
      const std::atomic<bool>* cancel) const;
  absl::Status ChargeEstimates();
  absl::Status ChargeText();
  absl::Status LoadWeights(const EngineOptions& options);
  absl::Status LoadStream(const EngineOptions& options);
  absl::Status LoadMapping(const EngineOptions& options);
  absl::Status GuardMappings();
  void LeaveNoCache() const;

  const std::optional<uint64_t> ram_budget_bytes_;
  const KvDtype kv_dtype_;
  const ProcessMemory memory_before_;
  std::chrono::duration<double> load_time_{};

  MemoryAccount account_;
  MemoryAccount program_account_;
  MemoryAccount tokenizer_account_;
  MemoryAccount weights_account_;
  MemoryAccount arena_account_;
  MemoryAccount sampler_account_;
  MemoryAccount kv_account_;
  // Until the need is known, what the text for it takes; then text_charge_.
  MemoryAccount prompt_account_;
  MemoryCharge program_charge_;
  MemoryCharge text_charge_;
  std::optional<MemoryAccount> text_account_;  // of what text_charge_ holds
  MemoryCharge tokenizer_charge_;
  MemoryCharge mapping_charge_;  // of a mapping that fits as a whole

  std::unique_ptr<Checkpoint> checkpoint_;
  ModelConfig config_;
  ModelWeights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<int32_t> generation_eos_ids_;
  std::vector<int32_t> eos_ids_;
  SamplingOptions sampling_defaults_;
  ModeChoice mode_choice_;
  uint32_t num_threads_ = 1;
  // The model's, or shorter as asked for; the budget may allow less.
  uint32_t longest_context_tokens_ = 0;

  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<WeightSource> source_;
  StreamSource* stream_ = nullptr;  // source_ in kStream
  GuardedRanges guarded_ranges_;
  std::optional<SamplerBuffers> sampler_buffers_;
  std::unique_ptr<Transformer> transformer_;
  std::mutex mutex_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_ENGINE_STATE_H_
