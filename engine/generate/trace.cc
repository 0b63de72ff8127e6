// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/trace.h"

#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/model_files.h"
#include "storage/safetensors_writer.h"

namespace lowmem {
namespace {

// Tensors are counted in file order: hidden.0 .. hidden.N, hidden.norm, logits.
std::vector<TensorSpec> TensorsOfTrace(const ModelConfig& config,
                                       uint64_t num_tokens) {
  std::vector<TensorSpec> tensors;
  const std::vector<uint64_t> hidden_shape = {num_tokens, config.dim};
  for (uint32_t i = 0; i <= config.num_layers; ++i) {
    tensors.push_back({absl::StrCat("hidden.", i), DType::kF32, hidden_shape});
  }
  tensors.push_back({"hidden.norm", DType::kF32, hidden_shape});
  tensors.push_back({"logits", DType::kF32, {num_tokens, config.vocab_size}});
  return tensors;
}

// Puts the rows of each chunk where they belong in the file.
class TraceObserver final : public ForwardObserver {
 public:
  TraceObserver(const ModelConfig& config, SafetensorsWriter& writer)
      : config_(config), writer_(writer) {}

  bool WantsHidden() const override { return true; }
  absl::Status OnHidden(uint32_t layer_idx, uint64_t first_pos,
                        absl::Span<const float> hidden) override {
    return Write(layer_idx, first_pos, config_.dim, hidden);
  }
  absl::Status OnFinalNorm(uint64_t first_pos,
                           absl::Span<const float> normed) override {
    return Write(size_t{config_.num_layers} + 1, first_pos, config_.dim,
                 normed);
  }
  absl::Status OnLogits(uint64_t pos, absl::Span<const float> logits) override {
    return Write(size_t{config_.num_layers} + 2, pos, config_.vocab_size,
                 logits);
  }

 private:
  absl::Status Write(size_t tensor_idx, uint64_t pos, uint64_t row_length,
                     absl::Span<const float> rows) {
    return writer_.WriteAt(tensor_idx, pos * row_length * sizeof(float),
                           {reinterpret_cast<const uint8_t*>(rows.data()),
                            rows.size() * sizeof(float)});
  }

  const ModelConfig& config_;
  SafetensorsWriter& writer_;
};

}  // namespace

absl::Status WriteTrace(EngineState& engine, absl::Span<const int32_t> ids,
                        const std::string& out_path,
                        const std::atomic<bool>* cancel) {
  if (ids.empty()) {
    return absl::InvalidArgumentError(
        "prompt is empty; expected at least one token");
  }
  LOWMEM_RETURN_IF_ERROR(engine.CheckIds(0, ids));
  LOWMEM_RETURN_IF_ERROR(CheckSparesModel(engine.checkpoint(), out_path));
  const std::vector<TensorSpec> tensors =
      TensorsOfTrace(engine.config(), ids.size());
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create(out_path, tensors, {}));

  const std::lock_guard<std::mutex> lock(engine.mutex());
  const std::unique_ptr<KvCache> kv = engine.NewKvCache();
  TraceObserver observer(engine.config(), *writer);
  LOWMEM_RETURN_IF_ERROR(engine.transformer().Forward(
      ids, LogitsFor::kEveryToken, cancel, *kv, observer));
  return writer->Commit();
}

}  // namespace lowmem
