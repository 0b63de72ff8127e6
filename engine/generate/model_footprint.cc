// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_footprint.h"

#include <memory>
#include <string>

#include "engine/generate/sampler.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/file.h"

namespace lowmem {
namespace {

// lowmem-run after --version: code, libraries and stacks.
constexpr uint64_t kProgramBytes = 6 * kMiB;

// What an AlignedBuffer of that size is charged.
uint64_t WholePages(uint64_t num_bytes) {
  return CheckedRoundUp(num_bytes, AlignedBuffer::kAlignmentBytes)
      .value_or(num_bytes);
}

}  // namespace

KvShape KvShapeOf(const ModelConfig& config) {
  KvShape shape;
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  return shape;
}

uint64_t UsedWeightBytes(const Checkpoint& checkpoint,
                         const ModelWeights& weights) {
  uint64_t num_bytes = 0;  // parts of files that exist: no overflow
  for (TensorId id : weights.UsedTensors(checkpoint)) {
    num_bytes += checkpoint.tensors()[id].size_bytes;
  }
  return num_bytes;
}

uint64_t EstimateTokenizerBytes(const Checkpoint& checkpoint) {
  const GgufMetadata* metadata = checkpoint.gguf_metadata();
  if (metadata == nullptr) {
    // The file spells every token once and every merge with quotes and commas,
    // which comes to what the tables need.
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> file =
        OpenFile(checkpoint.SidecarPath("tokenizer.json"));
    return file.ok() ? (*file)->size_bytes() : 0;
  }
  uint64_t num_bytes = 0;
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    const GgufValue* array = metadata->Find(key);
    if (array == nullptr || array->type != GgufType::kArray) continue;
    num_bytes += array->size_bytes + 16 * array->num_elements;
  }
  return num_bytes;
}

absl::StatusOr<ModelFootprint> MeasureFootprint(
    const Checkpoint& checkpoint, const ModelConfig& config,
    const ModelWeights& weights, const TransformerOptions& options,
    uint32_t num_threads) {
  ModelFootprint footprint;
  footprint.weight_bytes = UsedWeightBytes(checkpoint, weights);
  LOWMEM_ASSIGN_OR_RETURN(
      const uint64_t activation_bytes,
      Transformer::ActivationBytes(config, options, num_threads));
  footprint.arena_bytes = WholePages(activation_bytes);
  footprint.sampler_bytes =
      WholePages(SamplerBuffers::BytesFor(config.vocab_size));
  footprint.tokenizer_bytes = EstimateTokenizerBytes(checkpoint);
  footprint.program_bytes = kProgramBytes;
  footprint.kv_bytes_per_token = KvCache::BytesPerToken(KvShapeOf(config));
  footprint.kv_page_tokens = KvCache::kPageTokens;
  footprint.kv_page_bytes =
      WholePages(footprint.kv_bytes_per_token * KvCache::kPageTokens);
  footprint.context_tokens = options.max_context_tokens;
  return footprint;
}

}  // namespace lowmem
