// SPDX-License-Identifier: Apache-2.0
#include "storage/shard_index.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "storage/base/json_sax.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a path component on Linux

// Collects weight_map = {tensor: file}, whatever stands beside it.
class IndexHandler final : public JsonHandler {
 public:
  absl::Status OnObjectBegin() override {
    if (depth_ == 1 && in_weight_map_) in_entries_ = true;
    return Open(true);
  }
  absl::Status OnObjectEnd() override { return Close(); }
  absl::Status OnArrayBegin() override { return Open(false); }
  absl::Status OnArrayEnd() override { return Close(); }
  absl::Status OnNumber(absl::string_view) override {
    return OnOther("a number");
  }
  absl::Status OnBool(bool) override { return OnOther("a truth value"); }
  absl::Status OnNull() override { return OnOther("null"); }

  absl::Status OnKey(absl::string_view key) override {
    if (depth_ == 1) {
      in_weight_map_ = key == "weight_map";
      if (in_weight_map_ && has_weight_map_) {
        return absl::DataLossError("weight_map stands there twice");
      }
      has_weight_map_ |= in_weight_map_;
    } else if (depth_ == 2 && in_entries_) {
      tensor_ = std::string(key);
    }
    return absl::OkStatus();
  }

  absl::Status OnString(absl::string_view value) override {
    if (!in_entries_) return OnOther("a string");
    if (!IsSafeShardName(value)) {
      return absl::DataLossError(absl::StrCat(
          "tensor ", Printable(tensor_), ": the file name ", Printable(value),
          " is not safe; expected a relative path to a .safetensors file in "
          "the "
          "folder of the index"));
    }
    if (map_.size() == limits::kNumTensors) {
      return absl::DataLossError(absl::StrCat(
          "too many tensors; expected at most ", limits::kNumTensors));
    }
    // Numbered in order of appearance here, by name at the end.
    const auto [shard, is_new] = shards_.emplace(
        std::string(value), static_cast<uint32_t>(shards_.size()));
    if (is_new && shards_.size() > limits::kNumShards) {
      return absl::DataLossError(absl::StrCat(
          "too many shards; expected at most ", limits::kNumShards));
    }
    if (!map_.emplace(tensor_, shard->second).second) {
      return absl::DataLossError(absl::StrCat("tensor ", Printable(tensor_),
                                              ": the name stands there twice"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ShardIndex> Finish() {
    if (!has_weight_map_) return absl::DataLossError("weight_map is absent");
    if (map_.empty()) return absl::DataLossError("weight_map is empty");
    ShardIndex index;
    std::vector<uint32_t> sorted_idx(shards_.size());
    for (const auto& [name, appeared] : shards_) {
      sorted_idx[appeared] = static_cast<uint32_t>(index.shard_names.size());
      index.shard_names.push_back(name);
    }
    index.shard_by_tensor = std::move(map_);
    for (auto& [tensor, shard] : index.shard_by_tensor)
      shard = sorted_idx[shard];
    return index;
  }

 private:
  absl::Status Open(bool is_object) {
    if (depth_ == 0 && !is_object) return OnOther("a list");
    if (depth_ == 1 && in_weight_map_ && !is_object) return OnOther("a list");
    if (depth_ == 2 && in_entries_)
      return OnOther(is_object ? "an object" : "a list");
    ++depth_;
    return absl::OkStatus();
  }
  absl::Status Close() {
    if (--depth_ == 1) in_entries_ = false;
    return absl::OkStatus();
  }
  // A value of a kind that only stands where it does not matter.
  absl::Status OnOther(absl::string_view kind) const {
    if (in_entries_) {
      return absl::DataLossError(
          absl::StrCat("tensor ", Printable(tensor_),
                       ": malformed; expected a file name, got ", kind));
    }
    if (depth_ == 1 && in_weight_map_) {
      return absl::DataLossError(absl::StrCat(
          "weight_map is malformed; expected an object, got ", kind));
    }
    if (depth_ == 0) {
      return absl::DataLossError(absl::StrCat(
          "the document is malformed; expected an object, got ", kind));
    }
    return absl::OkStatus();
  }

  size_t depth_ = 0;
  bool in_weight_map_ = false;  // the current key of the document is weight_map
  bool in_entries_ = false;     // inside its object
  bool has_weight_map_ = false;
  std::string tensor_;
  std::map<std::string, uint32_t> shards_;
  absl::flat_hash_map<std::string, uint32_t> map_;
};

}  // namespace

bool IsSafeShardName(absl::string_view name) {
  if (!absl::EndsWith(name, ".safetensors")) return false;
  if (absl::StrContains(name, '\\') || absl::StrContains(name, '\0'))
    return false;
  for (const absl::string_view component : absl::StrSplit(name, '/')) {
    // An empty component stands for a leading, trailing or doubled slash.
    if (component.empty() || component == "." || component == ".." ||
        component.size() > kMaxNameBytes) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<ShardIndex> ReadShardIndex(const RandomAccessFile& file) {
  const std::string shown = PrintablePath(file.path());
  if (file.size_bytes() > limits::kShardIndexBytes) {
    return absl::DataLossError(absl::StrCat(
        shown, ": the index is too long; expected at most ",
        limits::kShardIndexBytes, " bytes, got ", file.size_bytes()));
  }
  const std::unique_ptr<ByteStream> stream =
      NewFileStream(file, 0, file.size_bytes());
  IndexHandler handler;
  absl::Status status = ParseJson(*stream, handler);
  if (status.code() == absl::StatusCode::kUnavailable) return status;
  if (status.ok()) {
    absl::StatusOr<ShardIndex> index = handler.Finish();
    if (index.ok()) return index;
    status = index.status();
  }
  return absl::Status(status.code(),
                      absl::StrCat(shown, ": ", status.message()));
}

}  // namespace lowmem
