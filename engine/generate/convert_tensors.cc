// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/convert_tensors.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/generate/bf16_stream.h"
#include "engine/model/family.h"
#include "engine/model/tensor_names.h"
#include "storage/base/json_writer.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

bool IsLayerPattern(const TensorPattern& pattern) {
  return pattern.pattern.find('#') != absl::string_view::npos;
}

bool IsInteger(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
    case DType::kBool:
      return true;
    default:
      return false;
  }
}

absl::Status Refuse(const Checkpoint& checkpoint, const TensorInfo& tensor,
                    absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat(PrintablePath(checkpoint.files()[tensor.file_idx]->path()),
                   ": tensor ", Printable(tensor.name), ": ", what));
}

absl::StatusOr<TensorConversion> Convert(const Checkpoint& checkpoint,
                                         TensorId source, std::string name) {
  const TensorInfo& tensor = checkpoint.tensors()[source];
  const bool is_integer = IsInteger(tensor.dtype);
  if (!is_integer && !TraitsOf(tensor.dtype).decodable) {
    return Refuse(checkpoint, tensor,
                  absl::StrCat("the dtype ", TraitsOf(tensor.dtype).name,
                               " cannot be turned into BF16"));
  }
  if (tensor.shape_is_folded) {
    return Refuse(checkpoint, tensor, "too many dimensions to be written");
  }
  TensorConversion conversion;
  conversion.source = source;
  conversion.target = {std::move(name),
                       is_integer ? tensor.dtype : DType::kBF16, tensor.shape};
  const std::optional<uint64_t> size_bytes = TensorBytes(conversion.target);
  if (!size_bytes.has_value()) {
    return Refuse(checkpoint, tensor, "the size in BF16 overflows");
  }
  conversion.size_bytes = *size_bytes;
  return conversion;
}

uint32_t PermutedHeads(const ModelConfig& config, TensorRole role) {
  if (!config.rope.neighbour_pairs) return 0;
  switch (role) {
    case TensorRole::kQProj:
    case TensorRole::kQBias:
      return config.num_heads;
    case TensorRole::kKProj:
    case TensorRole::kKBias:
      return config.num_kv_heads;
    default:
      return 0;
  }
}

// Adds the tensors that the published names call; marks them in `is_used`.
class GgufPlan {
 public:
  GgufPlan(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint),
        config_(config),
        is_used_(checkpoint.tensors().size(), false) {}

  absl::Status Add(const TensorPattern& published, uint32_t layer_idx) {
    const std::string gguf_name =
        TensorName(config_.family->gguf_tensors, published.role, layer_idx);
    const std::optional<TensorId> source = checkpoint_.Find(gguf_name);
    // ResolveWeights has proved that nothing needed is absent.
    if (gguf_name.empty() || !source.has_value()) return absl::OkStatus();
    is_used_[*source] = true;
    LOWMEM_ASSIGN_OR_RETURN(
        TensorConversion conversion,
        Convert(checkpoint_, *source,
                TensorName(config_.family->hugging_face_tensors, published.role,
                           layer_idx)));
    conversion.num_permuted_heads = PermutedHeads(config_, published.role);
    plan_.push_back(std::move(conversion));
    return absl::OkStatus();
  }

  absl::Status AddAll() {
    const auto published = config_.family->hugging_face_tensors;
    for (const TensorPattern& pattern : published) {
      if (!IsLayerPattern(pattern)) LOWMEM_RETURN_IF_ERROR(Add(pattern, 0));
    }
    for (uint32_t layer_idx = 0; layer_idx < config_.num_layers; ++layer_idx) {
      for (const TensorPattern& pattern : published) {
        if (IsLayerPattern(pattern)) {
          LOWMEM_RETURN_IF_ERROR(Add(pattern, layer_idx));
        }
      }
    }
    return CheckNothingIsLost();
  }

  std::vector<TensorConversion> Take() { return std::move(plan_); }

 private:
  // The divisors become rope scaling in config.json; anything else would be
  // dropped without a word.
  absl::Status CheckNothingIsLost() const {
    const std::string divisors =
        TensorName(config_.family->gguf_tensors, TensorRole::kRopeDivisors);
    for (TensorId id = 0; id < is_used_.size(); ++id) {
      const TensorInfo& tensor = checkpoint_.tensors()[id];
      if (is_used_[id] || tensor.name == divisors) continue;
      return Refuse(checkpoint_, tensor,
                    absl::StrCat("a folder of the family ",
                                 config_.family->name, " has no place for it"));
    }
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  std::vector<TensorConversion> plan_;
  std::vector<bool> is_used_;  // by TensorId
};

// Conversions [begin, end) of one file.
struct Shard {
  size_t begin = 0;
  size_t end = 0;
};

std::vector<Shard> SplitIntoShards(absl::Span<const TensorConversion> plan,
                                   uint64_t max_shard_bytes) {
  std::vector<Shard> shards = {{0, 0}};
  uint64_t shard_bytes = 0;
  for (size_t i = 0; i < plan.size(); ++i) {
    const bool is_full = plan[i].size_bytes > max_shard_bytes - shard_bytes;
    if (is_full && shards.back().end > shards.back().begin) {
      shards.push_back({i, i});
      shard_bytes = 0;
    }
    shards.back().end = i + 1;
    shard_bytes += std::min(plan[i].size_bytes, max_shard_bytes - shard_bytes);
  }
  return shards;
}

std::string ShardName(size_t shard_idx, size_t num_shards) {
  if (num_shards == 1) return "model.safetensors";
  return absl::StrFormat("model-%05d-of-%05d.safetensors", shard_idx + 1,
                         num_shards);
}

absl::Status WriteIndex(absl::Span<const TensorConversion> plan,
                        const std::vector<Shard>& shards,
                        const std::string& folder_path) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(JoinPath(
                              folder_path, "model.safetensors.index.json")));
  uint64_t total_bytes = 0;
  for (const TensorConversion& tensor : plan) total_bytes += tensor.size_bytes;
  JsonWriter json(JsonWriter::Style::kIndented);
  json.BeginObject().Key("metadata").BeginObject();
  json.Key("total_size").Uint(total_bytes).EndObject();
  json.Key("weight_map").BeginObject();
  for (size_t s = 0; s < shards.size(); ++s) {
    for (size_t i = shards[s].begin; i < shards[s].end; ++i) {
      json.Key(plan[i].target.name).String(ShardName(s, shards.size()));
    }
  }
  json.EndObject().EndObject();
  LOWMEM_RETURN_IF_ERROR(file->Append(json.text()));
  return file->Commit();
}

}  // namespace

absl::StatusOr<std::vector<TensorConversion>> PlanConversion(
    const Checkpoint& checkpoint, const ModelConfig& config) {
  if (checkpoint.format() == Checkpoint::Format::kGguf) {
    GgufPlan plan(checkpoint, config);
    LOWMEM_RETURN_IF_ERROR(plan.AddAll());
    return plan.Take();
  }
  std::vector<TensorConversion> plan;
  for (TensorId id = 0; id < checkpoint.tensors().size(); ++id) {
    LOWMEM_ASSIGN_OR_RETURN(
        TensorConversion conversion,
        Convert(checkpoint, id, checkpoint.tensors()[id].name));
    plan.push_back(std::move(conversion));
  }
  return plan;
}

absl::Status WriteWeights(
    const Checkpoint& checkpoint, absl::Span<const TensorConversion> plan,
    const std::string& folder_path, uint64_t max_shard_bytes,
    absl::FunctionRef<absl::Status(uint64_t done_bytes)> progress) {
  const std::vector<Shard> shards = SplitIntoShards(plan, max_shard_bytes);
  BF16Stream stream(progress);
  for (size_t s = 0; s < shards.size(); ++s) {
    std::vector<TensorSpec> specs;
    for (size_t i = shards[s].begin; i < shards[s].end; ++i) {
      specs.push_back(plan[i].target);
    }
    LOWMEM_ASSIGN_OR_RETURN(
        const std::unique_ptr<SafetensorsWriter> writer,
        SafetensorsWriter::Create(
            JoinPath(folder_path, ShardName(s, shards.size())), specs,
            SafetensorsWriter::TransformersMetadata()));
    for (size_t i = shards[s].begin; i < shards[s].end; ++i) {
      LOWMEM_RETURN_IF_ERROR(stream.Write(checkpoint, plan[i].source,
                                          plan[i].num_permuted_heads, *writer));
    }
    LOWMEM_RETURN_IF_ERROR(writer->Commit());
  }
  for (const auto& file : checkpoint.files()) {
    LOWMEM_RETURN_IF_ERROR(file->CheckUnchanged());
  }
  if (shards.size() == 1) return absl::OkStatus();
  return WriteIndex(plan, shards, folder_path);
}

}  // namespace lowmem
