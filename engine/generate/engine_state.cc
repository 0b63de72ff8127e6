// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/engine_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/generate/guarded_transformer.h"
#include "engine/generate/memory_forecast.h"
#include "engine/generate/model_footprint.h"
#include "engine/generate/posix_processors.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr uint32_t kMaxThreads = 1024;
constexpr uint32_t kMaxChunkTokens = 65536;

absl::Status ValidateOptions(const EngineOptions& options) {
  if (options.model_path.empty()) {
    return absl::InvalidArgumentError("model_path: is empty");
  }
  if (options.num_threads > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_threads: out of range; expected 0 to ", kMaxThreads,
                     ", got ", options.num_threads));
  }
  if (options.ram_budget_bytes == uint64_t{0}) {
    return absl::InvalidArgumentError(
        "ram_budget_bytes: out of range; expected at least 1, got 0");
  }
  if (options.prefill_chunk_tokens > kMaxChunkTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefill_chunk_tokens: out of range; expected 0 to ",
                     kMaxChunkTokens, ", got ", options.prefill_chunk_tokens));
  }
  return absl::OkStatus();
}

// What the system counted since `before`; nullopt when it does not count.
std::optional<uint64_t> CountedSince(std::optional<uint64_t> before,
                                     std::optional<uint64_t> now) {
  if (!before || !now) return std::nullopt;
  return *now - std::min(*before, *now);
}

std::optional<uint64_t> CachedBytes(const Checkpoint& checkpoint) {
  uint64_t sum = 0;
  for (const auto& file : checkpoint.files()) {
    const std::optional<uint64_t> cached = file->CachedBytes();
    if (!cached) return std::nullopt;
    sum += *cached;
  }
  return sum;
}

}  // namespace

EngineState::EngineState(std::optional<uint64_t> ram_budget_bytes)
    : ram_budget_bytes_(ram_budget_bytes),
      memory_before_(ReadProcessMemory()),
      account_("memory budget",
               ram_budget_bytes.value_or(MemoryAccount::kUnlimited), nullptr),
      program_account_("program", MemoryAccount::kUnlimited, &account_),
      tokenizer_account_("tokenizer", MemoryAccount::kUnlimited, &account_),
      weights_account_("weights", MemoryAccount::kUnlimited, &account_),
      arena_account_("activations", MemoryAccount::kUnlimited, &account_),
      sampler_account_("sampler", MemoryAccount::kUnlimited, &account_),
      kv_account_("keys and values", MemoryAccount::kUnlimited, &account_) {}

absl::StatusOr<std::unique_ptr<EngineState>> EngineState::Open(
    const EngineOptions& options) {
  LOWMEM_RETURN_IF_ERROR(ValidateOptions(options));
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<EngineState> state(new EngineState(options.ram_budget_bytes));
  LOWMEM_RETURN_IF_ERROR(state->ReadModel(options));
  LOWMEM_RETURN_IF_ERROR(state->Choose(options));
  LOWMEM_RETURN_IF_ERROR(state->LoadTokens());
  LOWMEM_RETURN_IF_ERROR(state->LoadWeights(options));
  state->load_time_ = std::chrono::steady_clock::now() - begin;
  return state;
}

absl::Status EngineState::ReadModel(const EngineOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(options.model_path));
  LOWMEM_ASSIGN_OR_RETURN(config_, ReadModelConfig(*checkpoint_));
  LOWMEM_ASSIGN_OR_RETURN(weights_, ResolveWeights(config_, *checkpoint_));
  LOWMEM_ASSIGN_OR_RETURN(GenerationConfig generation,
                          ReadGenerationConfig(*checkpoint_));
  generation_eos_ids_ = std::move(generation.eos_ids);
  sampling_defaults_ = generation.sampling;

  max_context_tokens_ = config_.max_context_tokens;
  if (options.max_context_tokens != 0) {
    max_context_tokens_ =
        std::min(max_context_tokens_, options.max_context_tokens);
  }
  num_threads_ = options.num_threads != 0
                     ? options.num_threads
                     : std::min(AvailableProcessors(), kMaxThreads);
  return absl::OkStatus();
}

absl::Status EngineState::Choose(const EngineOptions& options) {
  absl::StatusOr<ModeChoice> choice = ChooseMode(
      options.mode, ram_budget_bytes_, options.prefill_chunk_tokens,
      [&](uint32_t chunk_tokens) {
        return MeasureFootprint(
            *checkpoint_, config_, weights_,
            TransformerOptions{std::min(chunk_tokens, max_context_tokens_),
                               max_context_tokens_},
            num_threads_);
      });
  if (!choice.ok()) {
    return absl::Status(choice.status().code(),
                        absl::StrCat(Printable(checkpoint_->path()), ": ",
                                     choice.status().message()));
  }
  mode_choice_ = *std::move(choice);
  LOWMEM_ASSIGN_OR_RETURN(
      program_charge_,
      program_account_.Reserve(mode_choice_.forecast.footprint.program_bytes));
  return absl::OkStatus();
}

absl::Status EngineState::LoadTokens() {
  LOWMEM_ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(*checkpoint_));
  LOWMEM_ASSIGN_OR_RETURN(tokenizer_charge_,
                          tokenizer_account_.Reserve(
                              mode_choice_.forecast.footprint.tokenizer_bytes));
  eos_ids_ =
      UnionOfIds({generation_eos_ids_, config_.eos_ids, tokenizer_->eos_ids()});
  return absl::OkStatus();
}

absl::Status EngineState::LoadWeights(const EngineOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(pool_, ThreadPool::Create(num_threads_));
  if (mode_choice_.mode == Mode::kCopy) {
    CopySourceOptions source_options;
    source_options.drop_behind = ram_budget_bytes_.has_value();
    LOWMEM_ASSIGN_OR_RETURN(
        source_,
        NewCopySource(
            *checkpoint_, weights_.UsedTensors(*checkpoint_), source_options,
            weights_account_, [&](uint64_t done_bytes, uint64_t total_bytes) {
              return options.on_load_progress
                         ? options.on_load_progress({done_bytes, total_bytes})
                         : absl::OkStatus();
            }));
  } else {
    MmapSourceOptions source_options;
    source_options.drop_behind = mode_choice_.drop_behind;
    LOWMEM_ASSIGN_OR_RETURN(source_,
                            NewMmapSource(*checkpoint_, source_options));
    LOWMEM_RETURN_IF_ERROR(GuardMappings());
  }
  LOWMEM_ASSIGN_OR_RETURN(
      sampler_buffers_,
      SamplerBuffers::Create(config_.vocab_size, sampler_account_));
  LOWMEM_ASSIGN_OR_RETURN(
      transformer_,
      Transformer::Create(config_, *checkpoint_, weights_, *source_, *pool_,
                          TransformerOptions{std::min(mode_choice_.chunk_tokens,
                                                      max_context_tokens_),
                                             max_context_tokens_},
                          arena_account_));
  transformer_ = std::make_unique<GuardedTransformer>(
      std::move(transformer_), guarded_ranges_, checkpoint_->path());
  return absl::OkStatus();
}

// A mapping begins as far before the bytes of a tensor as the tensor lies into
// its file. Looking at the address touches no page.
absl::Status EngineState::GuardMappings() {
  std::vector<bool> is_guarded(checkpoint_->files().size(), false);
  for (TensorId id : weights_.UsedTensors(*checkpoint_)) {
    const TensorInfo& tensor = checkpoint_->tensors()[id];
    if (is_guarded[tensor.file_idx] || tensor.size_bytes == 0) continue;
    is_guarded[tensor.file_idx] = true;
    LOWMEM_ASSIGN_OR_RETURN(const WeightLease lease,
                            source_->Acquire(id, 0, 1));
    guarded_ranges_.Add(absl::MakeConstSpan(
        lease.data() - tensor.file_ofs,
        checkpoint_->files()[tensor.file_idx]->size_bytes()));
  }
  return absl::OkStatus();
}

absl::Status EngineState::CheckIds(uint64_t num_tokens,
                                   absl::Span<const int32_t> new_ids) const {
  for (int32_t id : new_ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= config_.vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("token id outside the vocabulary; expected 0 to ",
                       config_.vocab_size - 1, ", got ", id));
    }
  }
  if (new_ids.size() > max_context_tokens_ - num_tokens) {
    return absl::OutOfRangeError(absl::StrCat(
        "prompt is longer than the context; expected at most ",
        max_context_tokens_, " tokens, got ", num_tokens + new_ids.size()));
  }
  return absl::OkStatus();
}

std::unique_ptr<KvCache> EngineState::NewKvCache() {
  return std::make_unique<KvCache>(KvShapeOf(config_), max_context_tokens_,
                                   kv_account_);
}

void EngineState::FillMemory(Meter& meter) const {
  const ProcessMemory now = ReadProcessMemory();
  meter.mode = std::string(ModeName(mode_choice_.mode));
  meter.threads = static_cast<uint32_t>(pool_->num_threads());
  meter.ram_budget_bytes = ram_budget_bytes_;
  meter.model_bytes = mode_choice_.forecast.footprint.weight_bytes;
  meter.resident_weight_bytes = source_->resident_weight_bytes();
  meter.arena_bytes = transformer_->arena_bytes();
  meter.kv_bytes = kv_account_.used_bytes();
  meter.vm_hwm_bytes = now.vm_hwm_bytes;
  meter.rss_anon_bytes = now.rss_anon_bytes;
  meter.rss_file_bytes = now.rss_file_bytes;
  meter.cgroup_peak_bytes = now.cgroup_peak_bytes;
  meter.page_cache_bytes = CachedBytes(*checkpoint_);
  meter.major_faults =
      CountedSince(memory_before_.major_faults, now.major_faults);
  meter.storage_read_bytes =
      CountedSince(memory_before_.storage_read_bytes, now.storage_read_bytes);
  meter.load_s = load_time_.count();
}

}  // namespace lowmem
