// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/engine_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/generate/guarded_transformer.h"
#include "engine/generate/memory_forecast.h"
#include "engine/generate/model_footprint.h"
#include "engine/generate/posix_processors.h"
#include "engine/generate/stream_plan.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/bounded_mmap_source.h"
#include "storage/mapped_plan.h"

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

auto ProgressOf(const EngineOptions& options) {
  return [&options](uint64_t done_bytes, uint64_t total_bytes) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return absl::CancelledError("interrupted");
    }
    return options.on_load_progress
               ? options.on_load_progress({done_bytes, total_bytes})
               : absl::OkStatus();
  };
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

EngineState::EngineState(std::optional<uint64_t> ram_budget_bytes,
                         KvDtype kv_dtype)
    : ram_budget_bytes_(ram_budget_bytes),
      kv_dtype_(kv_dtype),
      memory_before_(ReadProcessMemory()),
      account_("memory budget",
               ram_budget_bytes.value_or(MemoryAccount::kUnlimited), nullptr),
      program_account_("program", MemoryAccount::kUnlimited, &account_),
      tokenizer_account_("tokenizer", MemoryAccount::kUnlimited, &account_),
      weights_account_("weights", MemoryAccount::kUnlimited, &account_),
      arena_account_("activations", MemoryAccount::kUnlimited, &account_),
      sampler_account_("sampler", MemoryAccount::kUnlimited, &account_),
      kv_account_("keys and values", MemoryAccount::kUnlimited, &account_),
      prompt_account_("text", MemoryAccount::kUnlimited, &account_) {}

absl::StatusOr<std::unique_ptr<EngineState>> EngineState::Open(
    const EngineOptions& options) {
  LOWMEM_RETURN_IF_ERROR(ValidateOptions(options));
  const auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<EngineState> state(
      new EngineState(options.ram_budget_bytes, options.kv_dtype));
  LOWMEM_RETURN_IF_ERROR(state->ReadModel(options));
  // A budget that is too small is refused before the tokenizer takes memory.
  LOWMEM_RETURN_IF_ERROR(state->Choose(options, std::nullopt));
  state->LeaveNoCache();
  LOWMEM_RETURN_IF_ERROR(state->ChargeEstimates());
  // The text may take the whole budget, as long as no weights are there.
  LOWMEM_ASSIGN_OR_RETURN(
      MemoryCharge caller_text,
      state->prompt_account_.Reserve(options.caller_text_bytes));
  LOWMEM_RETURN_IF_ERROR(state->LoadTokens());
  state->LeaveNoCache();
  LOWMEM_ASSIGN_OR_RETURN(const std::optional<SequenceNeed> need,
                          state->AskForNeed(options));
  caller_text = MemoryCharge();
  if (need) LOWMEM_RETURN_IF_ERROR(state->Choose(options, need));
  LOWMEM_RETURN_IF_ERROR(state->ChargeText());
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

  longest_context_tokens_ = config_.max_context_tokens;
  if (options.max_context_tokens != 0) {
    longest_context_tokens_ =
        std::min(longest_context_tokens_, options.max_context_tokens);
  }
  num_threads_ = options.num_threads != 0
                     ? options.num_threads
                     : std::min(AvailableCores(), kMaxThreads);
  return absl::OkStatus();
}

absl::Status EngineState::Choose(const EngineOptions& options,
                                 const std::optional<SequenceNeed>& need) {
  ModelFootprint model =
      MeasureModel(*checkpoint_, config_, weights_, kv_dtype_);
  if (need) model.text_bytes += need->caller_bytes;
  ModeRequest request = ModeRequestOf(options, config_.max_context_tokens);
  request.need = need;
  absl::StatusOr<ModeChoice> choice =
      ChooseMode(request, [&](uint32_t chunk_tokens, uint32_t context_tokens) {
        return AddActivations(
            model, config_,
            TransformerOptionsOf(options, chunk_tokens, context_tokens),
            num_threads_);
      });
  if (!choice.ok()) {
    const bool may_need_more = !need && options.sequence_need;
    return absl::Status(
        choice.status().code(),
        absl::StrCat(Printable(checkpoint_->path()), ": ",
                     choice.status().message(),
                     may_need_more ? "; a longer context needs more" : ""));
  }
  mode_choice_ = *std::move(choice);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<SequenceNeed>> EngineState::AskForNeed(
    const EngineOptions& options) {
  const bool is_used =
      options.ram_budget_bytes || mode_choice_.mode == Mode::kStream;
  if (!is_used || !options.sequence_need) return std::nullopt;
  const uint64_t max_tokens = options.text_exceeds_context
                                  ? std::numeric_limits<uint64_t>::max()
                                  : longest_context_tokens_;
  LOWMEM_ASSIGN_OR_RETURN(
      SequenceNeed need,
      options.sequence_need([&](absl::string_view text, bool parse_special) {
        return EncodeInto(prompt_account_, 0, max_tokens, text, parse_special,
                          options.cancel);
      }));
  // Of a prompt that no context holds nothing is computed.
  need.prompt_tokens = std::min(need.prompt_tokens, config_.max_context_tokens);
  return need;
}

// What is not taken in one piece, and was estimated.
absl::Status EngineState::ChargeEstimates() {
  const ModelFootprint& footprint = mode_choice_.forecast.footprint;
  LOWMEM_ASSIGN_OR_RETURN(program_charge_,
                          program_account_.Reserve(footprint.program_bytes));
  LOWMEM_ASSIGN_OR_RETURN(
      tokenizer_charge_, tokenizer_account_.Reserve(footprint.tokenizer_bytes));
  return absl::OkStatus();
}

absl::Status EngineState::ChargeText() {
  const uint64_t num_bytes = mode_choice_.forecast.footprint.text_bytes;
  LOWMEM_ASSIGN_OR_RETURN(text_charge_, prompt_account_.Reserve(num_bytes));
  text_account_.emplace(
      "text", ram_budget_bytes_ ? num_bytes : MemoryAccount::kUnlimited,
      nullptr);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> EngineState::EncodeInto(
    MemoryAccount& account, uint64_t num_tokens, uint64_t max_tokens,
    absl::string_view text, bool parse_special,
    const std::atomic<bool>* cancel) const {
  Tokenizer::EncodeOptions options;
  options.add_special = num_tokens == 0;
  options.parse_special = parse_special;
  options.cancel = cancel;
  options.max_ids = max_tokens - num_tokens;
  options.account = &account;
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer_->Encode(text, options);
  if (absl::IsOutOfRange(ids.status())) {
    return absl::OutOfRangeError(
        absl::StrCat("prompt is longer than the context; expected at most ",
                     max_tokens, " tokens, got more"));
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> EngineState::EncodeNext(
    uint64_t num_tokens, absl::string_view text, bool parse_special,
    const std::atomic<bool>* cancel) {
  return EncodeInto(*text_account_, num_tokens, longest_context_tokens_, text,
                    parse_special, cancel);
}

absl::Status EngineState::LoadTokens() {
  LOWMEM_ASSIGN_OR_RETURN(tokenizer_, LoadTokenizer(*checkpoint_));
  eos_ids_ =
      UnionOfIds({generation_eos_ids_, config_.eos_ids, tokenizer_->eos_ids()});
  return absl::OkStatus();
}

absl::Status EngineState::LoadWeights(const EngineOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(
      pool_, ThreadPool::Create(num_threads_, AvailableProcessors()));
  if (mode_choice_.mode == Mode::kCopy) {
    CopySourceOptions source_options;
    source_options.drop_behind = ram_budget_bytes_.has_value();
    LOWMEM_ASSIGN_OR_RETURN(
        source_,
        NewCopySource(*checkpoint_, weights_.UsedTensors(*checkpoint_),
                      source_options, weights_account_, ProgressOf(options)));
  } else if (mode_choice_.mode == Mode::kStream) {
    LOWMEM_RETURN_IF_ERROR(LoadStream(options));
  } else {
    LOWMEM_RETURN_IF_ERROR(LoadMapping(options));
  }
  LOWMEM_ASSIGN_OR_RETURN(
      sampler_buffers_,
      SamplerBuffers::Create(config_.vocab_size, sampler_account_));
  LOWMEM_ASSIGN_OR_RETURN(
      transformer_, Transformer::Create(
                        config_, *checkpoint_, weights_, *source_, *pool_,
                        TransformerOptionsOf(options, mode_choice_.chunk_tokens,
                                             max_context_tokens()),
                        arena_account_));
  transformer_ = std::make_unique<GuardedTransformer>(
      std::move(transformer_), guarded_ranges_, checkpoint_->path());
  return absl::OkStatus();
}

// Headers, configuration and tokenizer are read through the page cache, which a
// budget covers too. Pages that another process has mapped stay.
void EngineState::LeaveNoCache() const {
  if (!ram_budget_bytes_) return;
  for (const auto& file : checkpoint_->files()) {
    file->DropCache(0, file->size_bytes());
  }
  for (const char* name : {"config.json", "generation_config.json",
                           "tokenizer.json", "tokenizer_config.json"}) {
    const absl::StatusOr<std::unique_ptr<RandomAccessFile>> file =
        OpenFile(checkpoint_->SidecarPath(name));
    if (file.ok()) (*file)->DropCache(0, (*file)->size_bytes());
  }
}

absl::Status EngineState::LoadStream(const EngineOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(
      const StreamPlan plan,
      PlanStream(*checkpoint_, weights_, mode_choice_.weight_bytes));
  StreamSourceOptions source_options;
  source_options.ring = plan.ring;
  source_options.io_method = IoMethodOf(options.io);
  source_options.cancel = options.cancel;
  source_options.leave_no_cache = ram_budget_bytes_.has_value();
  LOWMEM_ASSIGN_OR_RETURN(
      std::unique_ptr<StreamSource> source,
      NewStreamSource(*checkpoint_, plan.residency, source_options,
                      weights_account_, ProgressOf(options)));
  stream_ = source.get();
  source_ = std::move(source);
  return absl::OkStatus();
}

absl::Status EngineState::LoadMapping(const EngineOptions& options) {
  if (!mode_choice_.weight_bytes) {
    if (ram_budget_bytes_) {
      LOWMEM_ASSIGN_OR_RETURN(
          mapping_charge_,
          weights_account_.Reserve(
              mode_choice_.forecast.footprint.most_mapped_bytes));
    }
    LOWMEM_ASSIGN_OR_RETURN(source_, NewMmapSource(*checkpoint_));
    return GuardMappings();
  }
  LOWMEM_ASSIGN_OR_RETURN(
      const MappedPlan plan,
      PlanMapped(*checkpoint_, DescribeModel(*checkpoint_, weights_),
                 *mode_choice_.weight_bytes));
  LOWMEM_ASSIGN_OR_RETURN(
      source_,
      NewBoundedMmapSource(*checkpoint_, plan.residency, plan.window_bytes,
                           weights_account_, ProgressOf(options)));
  return GuardMappings();
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
  if (new_ids.size() > max_context_tokens() - num_tokens) {
    const uint64_t all_tokens = num_tokens + new_ids.size();
    const bool is_budgets_fault = mode_choice_.budget_limits_context &&
                                  all_tokens <= config_.max_context_tokens;
    const uint32_t longest = mode_choice_.longest_context_tokens;
    const bool could_be_longer =
        is_budgets_fault && longest > max_context_tokens();
    return absl::Status(
        is_budgets_fault ? absl::StatusCode::kResourceExhausted
                         : absl::StatusCode::kOutOfRange,
        absl::StrCat(
            "prompt is longer than the context",
            could_be_longer    ? " that was chosen under the memory budget"
            : is_budgets_fault ? " that fits the memory budget"
                               : "",
            "; expected at most ", max_context_tokens(), " tokens, got ",
            all_tokens,
            could_be_longer ? absl::StrCat("; a context of ", longest,
                                           " tokens fits when asked for")
                            : ""));
  }
  return absl::OkStatus();
}

std::unique_ptr<KvCache> EngineState::NewKvCache() {
  return std::make_unique<KvCache>(KvShapeOf(config_, kv_dtype_),
                                   max_context_tokens(), kv_account_);
}

Meter EngineState::MeterOfPrompt(uint64_t num_tokens) const {
  Meter meter;
  FillMemory(meter);
  meter.kv_bytes = kv_account_.peak_bytes();
  meter.weight_bytes_read = transformer_->weight_bytes_read();
  meter.prompt_tokens = num_tokens;
  meter.prefill_weight_passes =
      static_cast<double>(transformer_->num_weight_passes());
  return meter;
}

void EngineState::FillMemory(Meter& meter) const {
  const ProcessMemory now = ReadProcessMemory();
  meter.mode = std::string(ModeName(mode_choice_.mode));
  if (stream_ != nullptr) {
    meter.io = stream_->io_description();
    meter.io_bytes_per_s = stream_->measured_bytes_per_s();
  }
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
