// SPDX-License-Identifier: Apache-2.0
// The public face of EngineState.
#include "lowmem/engine.h"

#include <utility>

#include "engine/generate/engine_session.h"
#include "engine/generate/engine_state.h"
#include "engine/model/family.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

class OpenedEngine final : public Engine {
 public:
  explicit OpenedEngine(std::unique_ptr<EngineState> state)
      : state_(std::move(state)) {}

  absl::StatusOr<std::unique_ptr<Session>> NewSession() override {
    return std::make_unique<EngineSession>(*state_);
  }
  absl::StatusOr<std::vector<int32_t>> Tokenize(
      absl::string_view text, bool add_special,
      bool parse_special) const override {
    Tokenizer::EncodeOptions options;
    options.add_special = add_special;
    options.parse_special = parse_special;
    options.account = &state_->text_account();
    return state_->tokenizer().Encode(text, options);
  }
  absl::StatusOr<std::string> Detokenize(absl::Span<const int32_t> ids,
                                         bool skip_special) const override {
    return state_->tokenizer().Decode(ids, skip_special);
  }
  uint32_t vocab_size() const override { return state_->config().vocab_size; }
  uint32_t max_context_tokens() const override {
    return state_->max_context_tokens();
  }
  bool budget_limits_context() const override {
    return state_->mode_choice().budget_limits_context;
  }
  uint32_t longest_context_tokens() const override {
    return state_->mode_choice().longest_context_tokens;
  }
  absl::string_view family() const override {
    return state_->config().family->name;
  }
  const std::vector<int32_t>& eos_ids() const override {
    return state_->eos_ids();
  }
  Mode mode() const override { return state_->mode_choice().mode; }
  const std::string& mode_reason() const override {
    return state_->mode_choice().reason;
  }
  Meter MemoryReport() const override {
    Meter meter;
    state_->FillMemory(meter);
    return meter;
  }

 private:
  const std::unique_ptr<EngineState> state_;
};

}  // namespace

absl::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kAuto:
      return "auto";
    case Mode::kMmap:
      return "mmap";
    case Mode::kCopy:
      return "copy";
    case Mode::kStream:
      return "stream";
  }
  return "unknown";
}

absl::string_view IoName(Io io) {
  switch (io) {
    case Io::kAuto:
      return "auto";
    case Io::kUring:
      return "uring";
    case Io::kPread:
      return "pread";
    case Io::kBuffered:
      return "buffered";
  }
  return "unknown";
}

absl::string_view KvDtypeName(KvDtype kv_dtype) {
  switch (kv_dtype) {
    case KvDtype::kF32:
      return "f32";
    case KvDtype::kBF16:
      return "bf16";
    case KvDtype::kQ8:
      return "q8";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(
    const EngineOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<EngineState> state,
                          EngineState::Open(options));
  return std::make_unique<OpenedEngine>(std::move(state));
}

}  // namespace lowmem
