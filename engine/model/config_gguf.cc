// SPDX-License-Identifier: Apache-2.0
#include "engine/model/config_gguf.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/family.h"
#include "engine/model/gguf_fields.h"
#include "quant/decode.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Keys that change what the model computes and that nothing here computes; 0
// and false are as good as absent.
absl::Status RefuseUnsupported(const GgufMetadata& metadata,
                               const GgufFields& keys) {
  for (const absl::string_view name :
       {"expert_count", "attention.sliding_window", "attn_logit_softcapping",
        "final_logit_softcapping", "attention.scale", "embedding_scale",
        "residual_scale", "logit_scale"}) {
    if (!keys.Has(name)) continue;
    const std::string key = keys.Key(name);
    if (metadata.GetUint(key).value_or(1) == 0 ||
        metadata.GetFloat(key).value_or(1) == 0) {
      continue;
    }
    return keys.Unimplemented(name, "no support for this feature");
  }
  if (!metadata.GetBool(keys.Key("attention.causal")).value_or(true)) {
    return keys.Unimplemented("attention.causal",
                              "no support for models that look ahead");
  }
  return absl::OkStatus();
}

absl::Status ReadSizes(const GgufFields& keys, ModelConfig* out) {
  LOWMEM_ASSIGN_OR_RETURN(out->num_layers,
                          keys.Uint("block_count", limits::kNumLayers));
  LOWMEM_ASSIGN_OR_RETURN(out->dim,
                          keys.Uint("embedding_length", limits::kDim));
  LOWMEM_ASSIGN_OR_RETURN(out->ff_dim,
                          keys.Uint("feed_forward_length", limits::kDim));
  LOWMEM_ASSIGN_OR_RETURN(out->num_heads,
                          keys.Uint("attention.head_count", limits::kNumHeads));
  LOWMEM_ASSIGN_OR_RETURN(out->num_kv_heads,
                          keys.UintOr("attention.head_count_kv", out->num_heads,
                                      limits::kNumHeads));
  LOWMEM_ASSIGN_OR_RETURN(out->max_context_tokens,
                          keys.Uint("context_length", limits::kContextTokens));

  if (!keys.Has("attention.key_length") && out->dim % out->num_heads != 0) {
    return keys.DataLoss(
        "attention.head_count",
        absl::StrCat("key_length is absent, and embedding_length ", out->dim,
                     " is no multiple of ", out->num_heads));
  }
  LOWMEM_ASSIGN_OR_RETURN(out->head_dim,
                          keys.UintOr("attention.key_length",
                                      out->dim / out->num_heads, limits::kDim));
  LOWMEM_ASSIGN_OR_RETURN(
      const uint32_t value_dim,
      keys.UintOr("attention.value_length", out->head_dim, limits::kDim));
  if (value_dim != out->head_dim) {
    return keys.Unimplemented(
        "attention.value_length",
        absl::StrCat(
            "no support for values of another length than keys; expected ",
            out->head_dim, ", got ", value_dim));
  }
  return absl::OkStatus();
}

// rope_freqs.weight, at most kDim values of it.
absl::Status ReadDivisors(const Checkpoint& checkpoint, const std::string& name,
                          RopeConfig* rope) {
  const std::optional<TensorId> id =
      name.empty() ? std::nullopt : checkpoint.Find(name);
  if (!id.has_value()) return absl::OkStatus();
  const TensorInfo& tensor = checkpoint.tensors()[*id];
  if (tensor.shape.size() != 1 || tensor.num_cols() > limits::kDim) {
    return absl::DataLossError(absl::StrCat(
        checkpoint.path(), ": ", name, ": expected a vector of half a head"));
  }
  if (!TraitsOf(tensor.dtype).decodable) {
    return absl::UnimplementedError(absl::StrCat(checkpoint.path(), ": ", name,
                                                 ": no support for dtype ",
                                                 TraitsOf(tensor.dtype).name));
  }
  std::vector<uint8_t> bytes(tensor.size_bytes);
  LOWMEM_RETURN_IF_ERROR(checkpoint.files()[tensor.file_idx]->Read(
      tensor.file_ofs, absl::MakeSpan(bytes)));
  rope->frequency_divisors.resize(tensor.num_cols());
  DecodeRow(tensor.dtype, bytes.data(), tensor.num_cols(),
            rope->frequency_divisors.data());
  return absl::OkStatus();
}

absl::Status ReadRope(const Checkpoint& checkpoint, const GgufFields& keys,
                      ModelConfig* out) {
  RopeConfig& rope = out->rope;
  rope.neighbour_pairs = out->family->gguf_neighbour_pairs;
  LOWMEM_ASSIGN_OR_RETURN(rope.theta,
                          keys.PositiveOr("rope.freq_base", 10000.0));
  LOWMEM_ASSIGN_OR_RETURN(
      const uint32_t rotated,
      keys.UintOr("rope.dimension_count", out->head_dim, limits::kDim));
  if (rotated != out->head_dim) {
    return keys.Unimplemented(
        "rope.dimension_count",
        absl::StrCat("no support for partly rotated heads; expected ",
                     out->head_dim, ", got ", rotated));
  }

  // Files of 2023 have the factor alone, under another key.
  LOWMEM_ASSIGN_OR_RETURN(const double old_factor,
                          keys.PositiveOr("rope.scale_linear", 1.0));
  LOWMEM_ASSIGN_OR_RETURN(rope.factor,
                          keys.PositiveOr("rope.scaling.factor", old_factor));
  LOWMEM_ASSIGN_OR_RETURN(
      const std::string scaling,
      keys.StringOr("rope.scaling.type",
                    keys.Has("rope.scale_linear") ? "linear" : "none"));
  if (scaling == "linear") {
    rope.scaling = RopeScaling::kLinear;
  } else if (scaling != "none") {
    return keys.Unimplemented(
        "rope.scaling.type",
        absl::StrCat("no support for \"", Printable(scaling), "\""));
  }
  return ReadDivisors(
      checkpoint,
      TensorName(out->family->gguf_tensors, TensorRole::kRopeDivisors), &rope);
}

// The vocabulary, the head and the biases: what only the tensors tell. Presence
// in the first layer counts for all; ResolveWeights finds a layer that differs.
absl::Status ReadFromTensors(const Checkpoint& checkpoint, ModelConfig* out) {
  const absl::Span<const TensorPattern> names = out->family->gguf_tensors;
  const auto has = [&](TensorRole role) {
    return checkpoint.Find(TensorName(names, role)).has_value();
  };
  const std::string embedding_name = TensorName(names, TensorRole::kEmbedding);
  const std::optional<TensorId> embedding = checkpoint.Find(embedding_name);
  if (!embedding.has_value()) {
    return absl::DataLossError(
        absl::StrCat(checkpoint.path(), ": ", embedding_name, ": is absent"));
  }
  const uint64_t num_rows = checkpoint.tensors()[*embedding].num_rows();
  if (num_rows < 1 || num_rows > limits::kVocabSize) {
    return absl::DataLossError(absl::StrCat(
        checkpoint.path(), ": ", embedding_name, ": expected from 1 to ",
        limits::kVocabSize, " rows, got ", num_rows));
  }
  out->vocab_size = static_cast<uint32_t>(num_rows);
  out->tied_head = !has(TensorRole::kHead);
  out->qkv_bias = has(TensorRole::kQBias);
  out->attention_out_bias = has(TensorRole::kOBias);
  out->mlp_bias = has(TensorRole::kGateBias);
  return absl::OkStatus();
}

absl::Status ReadTokens(const GgufMetadata& metadata, const std::string& path,
                        ModelConfig* out) {
  // 2^32 - 1 is how some writers say "none".
  const auto token = [&](absl::string_view key) -> int64_t {
    const std::optional<uint64_t> id = metadata.GetUint(key);
    if (!id.has_value() || *id >= std::numeric_limits<uint32_t>::max())
      return -1;
    return static_cast<int64_t>(*id);
  };
  out->bos_id = token("tokenizer.ggml.bos_token_id");
  const int64_t eos_id = token("tokenizer.ggml.eos_token_id");
  if (eos_id > std::numeric_limits<int32_t>::max()) {
    return absl::DataLossError(absl::StrCat(
        path, ": tokenizer.ggml.eos_token_id: expected a token id, got ",
        eos_id));
  }
  if (eos_id >= 0) out->eos_ids.push_back(static_cast<int32_t>(eos_id));

  const GgufValue* tokens = metadata.Find("tokenizer.ggml.tokens");
  if (tokens != nullptr && tokens->num_elements > out->vocab_size) {
    return absl::DataLossError(absl::StrCat(
        path,
        ": tokenizer.ggml.tokens: more than the embedding has rows; expected "
        "at most ",
        out->vocab_size, ", got ", tokens->num_elements));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfigGguf(const Checkpoint& checkpoint) {
  const GgufMetadata& metadata = *checkpoint.gguf_metadata();
  const std::string& path = checkpoint.path();
  const std::string* architecture = metadata.GetString("general.architecture");
  if (architecture == nullptr) {
    return absl::DataLossError(
        absl::StrCat(path, ": general.architecture: is absent or no string"));
  }
  ModelConfig out;
  out.family = FamilyByGgufArchitecture(*architecture);
  if (out.family == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": general.architecture: no support for \"",
                     Printable(*architecture), "\""));
  }
  const GgufFields keys(metadata, path, *architecture);
  LOWMEM_RETURN_IF_ERROR(RefuseUnsupported(metadata, keys));
  LOWMEM_RETURN_IF_ERROR(ReadSizes(keys, &out));
  LOWMEM_ASSIGN_OR_RETURN(const double epsilon,
                          keys.Positive("attention.layer_norm_rms_epsilon"));
  out.norm_epsilon = static_cast<float>(epsilon);
  LOWMEM_RETURN_IF_ERROR(ReadFromTensors(checkpoint, &out));
  LOWMEM_RETURN_IF_ERROR(ReadRope(checkpoint, keys, &out));
  LOWMEM_RETURN_IF_ERROR(ReadTokens(metadata, path, &out));
  return out;
}

}  // namespace lowmem
