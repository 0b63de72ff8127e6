// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model_weights.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/family.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Looks tensors up by role and remembers what was wrong: of each kind of fault
// the first, and how many names were not found.
class Resolver {
 public:
  Resolver(const ModelConfig& config, const Checkpoint& checkpoint)
      : checkpoint_(checkpoint),
        patterns_(checkpoint.format() == Checkpoint::Format::kGguf
                      ? config.family->gguf_tensors
                      : config.family->hugging_face_tensors) {}

  absl::Span<const TensorPattern> patterns() const { return patterns_; }

  TensorId Require(TensorRole role, uint32_t layer_idx,
                   std::initializer_list<uint64_t> shape) {
    const std::string name = TensorName(patterns_, role, layer_idx);
    const std::optional<TensorId> id = checkpoint_.Find(name);
    if (!id.has_value()) {
      if (num_absent_++ == 0) first_absent_ = name;
      return 0;
    }
    const TensorInfo& tensor = checkpoint_.tensors()[*id];
    if (!std::equal(shape.begin(), shape.end(), tensor.shape.begin(),
                    tensor.shape.end())) {
      Note(absl::DataLossError(absl::StrCat(
          Where(tensor), "shape contradicts the configuration; expected [",
          absl::StrJoin(shape, ", "), "], got [",
          absl::StrJoin(tensor.shape, ", "), "]")));
    } else if (!TraitsOf(tensor.dtype).decodable && unsupported_.ok()) {
      unsupported_ = absl::UnimplementedError(absl::StrCat(
          Where(tensor), "no support for dtype ", TraitsOf(tensor.dtype).name));
    }
    return *id;
  }

  // A vector that the configuration may do without.
  std::optional<TensorId> RequireIf(bool wanted, TensorRole role,
                                    uint32_t layer_idx, uint64_t size) {
    if (wanted) return Require(role, layer_idx, {size});
    const std::string name = TensorName(patterns_, role, layer_idx);
    if (const std::optional<TensorId> id = checkpoint_.Find(name);
        id.has_value()) {
      Note(absl::DataLossError(
          absl::StrCat(Where(checkpoint_.tensors()[*id]),
                       "is there, but the configuration says no such bias")));
    }
    return std::nullopt;
  }

  void RefuseLayersFrom(uint32_t num_layers) {
    for (const TensorInfo& tensor : checkpoint_.tensors()) {
      const std::optional<uint32_t> layer_idx =
          LayerOfName(patterns_, tensor.name);
      if (!layer_idx.has_value() || *layer_idx < num_layers) continue;
      Note(absl::DataLossError(
          absl::StrCat(Where(tensor), "is there, but the configuration says ",
                       num_layers, " layers")));
      return;
    }
  }

  absl::Status status() const {
    if (num_absent_ == 1) {
      return absl::DataLossError(absl::StrCat(
          checkpoint_.path(), ": ", first_absent_, ": the tensor is absent"));
    }
    if (num_absent_ > 1) {
      return absl::DataLossError(absl::StrCat(
          checkpoint_.path(), ": ", first_absent_,
          ": the tensor is absent, and ", num_absent_ - 1, " more are"));
    }
    return contradiction_.ok() ? unsupported_ : contradiction_;
  }

 private:
  std::string Where(const TensorInfo& tensor) const {
    return absl::StrCat(checkpoint_.files()[tensor.file_idx]->path(), ": ",
                        Printable(tensor.name), ": ");
  }
  void Note(absl::Status status) {
    if (contradiction_.ok()) contradiction_ = std::move(status);
  }

  const Checkpoint& checkpoint_;
  const absl::Span<const TensorPattern> patterns_;
  std::string first_absent_;
  uint64_t num_absent_ = 0;
  absl::Status contradiction_;
  absl::Status unsupported_;
};

LayerTensors ResolveLayer(const ModelConfig& config, uint32_t layer_idx,
                          Resolver& find) {
  const uint64_t dim = config.dim;
  const uint64_t ff_dim = config.ff_dim;
  const uint64_t q_dim = config.q_dim();
  const uint64_t kv_dim = config.kv_dim();
  const auto require = [&](TensorRole role,
                           std::initializer_list<uint64_t> shape) {
    return find.Require(role, layer_idx, shape);
  };
  const auto bias = [&](bool wanted, TensorRole role, uint64_t size) {
    return find.RequireIf(wanted, role, layer_idx, size);
  };
  LayerTensors layer;
  layer.attention_norm = require(TensorRole::kAttentionNorm, {dim});
  layer.q_proj = require(TensorRole::kQProj, {q_dim, dim});
  layer.k_proj = require(TensorRole::kKProj, {kv_dim, dim});
  layer.v_proj = require(TensorRole::kVProj, {kv_dim, dim});
  layer.q_bias = bias(config.qkv_bias, TensorRole::kQBias, q_dim);
  layer.k_bias = bias(config.qkv_bias, TensorRole::kKBias, kv_dim);
  layer.v_bias = bias(config.qkv_bias, TensorRole::kVBias, kv_dim);
  layer.o_proj = require(TensorRole::kOProj, {dim, q_dim});
  layer.o_bias = bias(config.attention_out_bias, TensorRole::kOBias, dim);
  layer.feed_forward_norm = require(TensorRole::kFeedForwardNorm, {dim});
  layer.gate_proj = require(TensorRole::kGateProj, {ff_dim, dim});
  layer.up_proj = require(TensorRole::kUpProj, {ff_dim, dim});
  layer.gate_bias = bias(config.mlp_bias, TensorRole::kGateBias, ff_dim);
  layer.up_bias = bias(config.mlp_bias, TensorRole::kUpBias, ff_dim);
  layer.down_proj = require(TensorRole::kDownProj, {dim, ff_dim});
  layer.down_bias = bias(config.mlp_bias, TensorRole::kDownBias, dim);
  return layer;
}

// In the order in which a layer uses them.
WeightStep StepOf(const LayerTensors& layer) {
  WeightStep step;
  const auto add = [&](TensorId weight, std::optional<TensorId> bias) {
    step.tensors.push_back(weight);
    if (bias.has_value()) step.tensors.push_back(*bias);
  };
  add(layer.attention_norm, std::nullopt);
  add(layer.q_proj, layer.q_bias);
  add(layer.k_proj, layer.k_bias);
  add(layer.v_proj, layer.v_bias);
  add(layer.o_proj, layer.o_bias);
  add(layer.feed_forward_norm, std::nullopt);
  add(layer.gate_proj, layer.gate_bias);
  add(layer.up_proj, layer.up_bias);
  add(layer.down_proj, layer.down_bias);
  return step;
}

}  // namespace

std::vector<WeightStep> ModelWeights::Steps() const {
  std::vector<WeightStep> steps;
  steps.reserve(layers.size() + 1);
  for (const LayerTensors& layer : layers) steps.push_back(StepOf(layer));
  steps.push_back(WeightStep{{final_norm, head}});
  return steps;
}

std::vector<TensorId> ModelWeights::UsedTensors(
    const Checkpoint& checkpoint) const {
  std::vector<TensorId> used = {embedding};
  for (const WeightStep& step : Steps()) {
    used.insert(used.end(), step.tensors.begin(), step.tensors.end());
  }
  const std::vector<TensorInfo>& tensors = checkpoint.tensors();
  // The id last: a tied head is there twice.
  const auto place = [&](TensorId id) {
    return std::make_tuple(tensors[id].file_idx, tensors[id].file_ofs, id);
  };
  std::sort(used.begin(), used.end(),
            [&](TensorId a, TensorId b) { return place(a) < place(b); });
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

absl::StatusOr<ModelWeights> ResolveWeights(const ModelConfig& config,
                                            const Checkpoint& checkpoint) {
  Resolver find(config, checkpoint);
  ModelWeights weights;
  const uint64_t dim = config.dim;
  const uint64_t vocab_size = config.vocab_size;
  weights.embedding =
      find.Require(TensorRole::kEmbedding, 0, {vocab_size, dim});
  weights.layers.reserve(config.num_layers);
  for (uint32_t i = 0; i < config.num_layers; ++i) {
    weights.layers.push_back(ResolveLayer(config, i, find));
  }
  weights.final_norm = find.Require(TensorRole::kFinalNorm, 0, {dim});
  weights.head = config.tied_head
                     ? weights.embedding
                     : find.Require(TensorRole::kHead, 0, {vocab_size, dim});
  find.RefuseLayersFrom(config.num_layers);
  LOWMEM_RETURN_IF_ERROR(find.status());
  return weights;
}

}  // namespace lowmem
