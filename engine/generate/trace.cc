// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/trace.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/model_files.h"
#include "storage/safetensors_writer.h"

namespace lowmem {
namespace {

constexpr uint64_t kBufferBytes = 32 * kMiB;

absl::Span<const uint8_t> BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()),
          values.size() * sizeof(float)};
}

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

// Takes the rows of tensors [first, first + num_buffered]: those of the first
// go straight to the file, the others wait in the buffer.
class TraceObserver final : public ForwardObserver {
 public:
  TraceObserver(const std::vector<TensorSpec>& tensors, size_t first,
                size_t num_buffered, absl::Span<uint8_t> buffer,
                SafetensorsWriter& writer)
      : num_tensors_(tensors.size()), first_(first), writer_(writer) {
    for (size_t i = 1; i <= num_buffered; ++i) {
      const size_t num_bytes = TensorBytes(tensors[first + i]).value_or(0);
      free_.push_back(buffer.first(num_bytes));
      used_ += num_bytes;
      buffer.remove_prefix(num_bytes);
    }
  }

  bool WantsHidden() const override { return first_ < num_tensors_ - 1; }

  absl::Status OnHidden(uint32_t layer_idx, uint64_t,
                        absl::Span<const float> hidden) override {
    return Take(layer_idx, hidden);
  }
  absl::Status OnFinalNorm(uint64_t, absl::Span<const float> normed) override {
    return Take(num_tensors_ - 2, normed);
  }
  absl::Status OnLogits(uint64_t, absl::Span<const float> logits) override {
    return Take(num_tensors_ - 1, logits);
  }

  // Bytes at the front of the buffer that hold complete tensors.
  uint64_t used_bytes() const { return used_; }

 private:
  absl::Status Take(size_t tensor_idx, absl::Span<const float> rows) {
    const absl::Span<const uint8_t> bytes = BytesOf(rows);
    if (tensor_idx == first_) return writer_.Append(bytes);
    if (tensor_idx < first_ || tensor_idx - first_ > free_.size()) {
      return absl::OkStatus();
    }
    absl::Span<uint8_t>& free = free_[tensor_idx - first_ - 1];
    std::memcpy(free.data(), bytes.data(), bytes.size());
    free.remove_prefix(bytes.size());
    return absl::OkStatus();
  }

  const size_t num_tensors_;
  const size_t first_;
  SafetensorsWriter& writer_;
  std::vector<absl::Span<uint8_t>>
      free_;  // what is still to be filled, a tensor
  uint64_t used_ = 0;
};

// How many tensors behind `first` fit the buffer.
size_t NumBuffered(const std::vector<TensorSpec>& tensors, size_t first,
                   uint64_t buffer_bytes) {
  size_t count = 0;
  for (size_t i = first + 1; i < tensors.size(); ++i, ++count) {
    const std::optional<uint64_t> num_bytes = TensorBytes(tensors[i]);
    if (!num_bytes || *num_bytes > buffer_bytes) break;
    buffer_bytes -= *num_bytes;
  }
  return count;
}

// In one chunk all rows come in file order, and nothing has to wait.
class InOrderObserver final : public ForwardObserver {
 public:
  explicit InOrderObserver(SafetensorsWriter& writer) : writer_(writer) {}
  bool WantsHidden() const override { return true; }
  absl::Status OnHidden(uint32_t, uint64_t,
                        absl::Span<const float> hidden) override {
    return writer_.Append(BytesOf(hidden));
  }
  absl::Status OnFinalNorm(uint64_t, absl::Span<const float> normed) override {
    return writer_.Append(BytesOf(normed));
  }
  absl::Status OnLogits(uint64_t, absl::Span<const float> logits) override {
    return writer_.Append(BytesOf(logits));
  }

 private:
  SafetensorsWriter& writer_;
};

absl::Status RunInPasses(EngineState& engine, absl::Span<const int32_t> ids,
                         const std::vector<TensorSpec>& tensors,
                         const std::atomic<bool>* cancel,
                         SafetensorsWriter& writer) {
  // Before the buffer, which must not take what these need.
  const std::unique_ptr<KvCache> kv = engine.NewKvCache();
  LOWMEM_RETURN_IF_ERROR(kv->Reserve(static_cast<uint32_t>(ids.size())));
  absl::StatusOr<AlignedBuffer> allocated =
      AlignedBuffer::Allocate(kBufferBytes, engine.account());
  AlignedBuffer buffer =
      allocated.ok() ? *std::move(allocated) : AlignedBuffer();
  size_t first = 0;
  while (first < tensors.size()) {
    const size_t num_buffered =
        NumBuffered(tensors, first, buffer.size_bytes());
    TraceObserver observer(tensors, first, num_buffered,
                           {buffer.data(), buffer.size_bytes()}, writer);
    kv->Truncate(0);
    LOWMEM_RETURN_IF_ERROR(engine.transformer().Forward(
        ids, LogitsFor::kEveryToken, cancel, *kv, observer));
    LOWMEM_RETURN_IF_ERROR(writer.Append(
        absl::MakeConstSpan(buffer.data(), observer.used_bytes())));
    first += 1 + num_buffered;
  }
  return absl::OkStatus();
}

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
  if (ids.size() <= engine.mode_choice().chunk_tokens) {
    const std::unique_ptr<KvCache> kv = engine.NewKvCache();
    InOrderObserver observer(*writer);
    LOWMEM_RETURN_IF_ERROR(engine.transformer().Forward(
        ids, LogitsFor::kEveryToken, cancel, *kv, observer));
  } else {
    LOWMEM_RETURN_IF_ERROR(RunInPasses(engine, ids, tensors, cancel, *writer));
  }
  return writer->Commit();
}

}  // namespace lowmem
