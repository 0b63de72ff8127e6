// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/model_footprint.h"

#include <memory>
#include <string>

#include "engine/generate/sampler.h"
#include "engine/generate/stream_plan.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/file.h"
#include "storage/mapped_plan.h"
#include "storage/weight_source.h"

namespace lowmem {
namespace {

// A further thread touches 3 KiB of its stack; the kernel holds some 30 KiB for
// it, which a control group counts.
constexpr uint32_t kProgramThreads = 8;
constexpr uint64_t kBytesPerThread = 48 * kKiB;
// Work space for a text that nobody announced, such as the next turn of a
// conversation. Beyond it comes what EngineState::Encode charges.
constexpr uint64_t kTextWorkBytes = 64 * kKiB;
// Ids in the prompt, the sequence and the answer (12, and as many while vectors
// grow), the answer's text, and both as JSON.
constexpr uint64_t kTextBytesPerToken = 64;

// What an AlignedBuffer of that size is charged.
uint64_t WholePages(uint64_t num_bytes) {
  return CheckedRoundUp(num_bytes, AlignedBuffer::kAlignmentBytes)
      .value_or(num_bytes);
}

KvFormat FormatOf(KvDtype kv_dtype) {
  switch (kv_dtype) {
    case KvDtype::kBF16:
      return KvFormat::kBF16;
    case KvDtype::kQ8:
      return KvFormat::kQ8;
    case KvDtype::kF32:
      break;
  }
  return KvFormat::kF32;
}

}  // namespace

KvShape KvShapeOf(const ModelConfig& config, KvDtype kv_dtype) {
  KvShape shape;
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = config.num_kv_heads;
  shape.head_dim = config.head_dim;
  shape.format = FormatOf(kv_dtype);
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
    num_bytes += array->size_bytes;
  }
  return num_bytes;
}

ModelFootprint MeasureModel(const Checkpoint& checkpoint,
                            const ModelConfig& config,
                            const ModelWeights& weights, KvDtype kv_dtype) {
  ModelFootprint footprint;
  footprint.weight_bytes = UsedWeightBytes(checkpoint, weights);
  footprint.copied_weight_bytes =
      CopySourceBytes(checkpoint, weights.UsedTensors(checkpoint));
  const StreamBounds stream = BoundsOfStream(checkpoint, weights);
  footprint.least_stream_bytes = WholePages(stream.least_bytes);
  footprint.most_stream_bytes = WholePages(stream.most_bytes);
  const MappedBounds mapped =
      BoundsOfMapped(checkpoint, DescribeModel(checkpoint, weights));
  footprint.least_mapped_bytes = mapped.least_bytes;
  footprint.most_mapped_bytes = mapped.most_bytes;
  footprint.sampler_bytes =
      WholePages(SamplerBuffers::BytesFor(config.vocab_size));
  footprint.tokenizer_bytes = EstimateTokenizerBytes(checkpoint);
  footprint.program_bytes = kProgramBytes;
  footprint.text_bytes = kTextWorkBytes;
  footprint.kv_bytes_per_token =
      KvCache::BytesPerToken(KvShapeOf(config, kv_dtype));
  footprint.kv_page_tokens = KvCache::kPageTokens;
  footprint.kv_page_bytes =
      WholePages(footprint.kv_bytes_per_token * KvCache::kPageTokens);
  return footprint;
}

absl::StatusOr<ModelFootprint> AddActivations(const ModelFootprint& model,
                                              const ModelConfig& config,
                                              const TransformerOptions& options,
                                              uint32_t num_threads) {
  LOWMEM_ASSIGN_OR_RETURN(
      const uint64_t activation_bytes,
      Transformer::ActivationBytes(config, options, num_threads));
  ModelFootprint footprint = model;
  footprint.arena_bytes = WholePages(activation_bytes);
  if (num_threads > kProgramThreads) {
    footprint.program_bytes +=
        (num_threads - kProgramThreads) * kBytesPerThread;
  }
  footprint.context_tokens = options.max_context_tokens;
  // As keys and values come: a page more holds that many tokens.
  const uint64_t num_pages =
      uint64_t{options.max_context_tokens} / KvCache::kPageTokens +
      (options.max_context_tokens % KvCache::kPageTokens != 0);
  footprint.text_bytes += kTextBytesPerToken * num_pages * KvCache::kPageTokens;
  return footprint;
}

}  // namespace lowmem
