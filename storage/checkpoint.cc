// SPDX-License-Identifier: Apache-2.0
#include "storage/checkpoint.h"

#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/gguf_reader.h"
#include "storage/safetensors_reader.h"
#include "storage/shard_index.h"

namespace lowmem {
namespace {

constexpr absl::string_view kSingleName = "model.safetensors";
constexpr absl::string_view kIndexName = "model.safetensors.index.json";
// Weights as pickled Python objects: code, in effect, and not read.
constexpr absl::string_view kPickleNames[] = {"pytorch_model.bin",
                                              "pytorch_model.bin.index.json"};

enum class FileKind { kSafetensors, kIndex, kGguf };

// By the name, since a published name says what its owner takes it for; by the
// magic where the name says nothing (a blob of the cache).
absl::StatusOr<FileKind> KindOfFile(const RandomAccessFile& file) {
  const std::string& path = file.path();
  if (absl::EndsWithIgnoreCase(path, ".safetensors"))
    return FileKind::kSafetensors;
  if (absl::EndsWithIgnoreCase(path, ".gguf")) return FileKind::kGguf;
  if (absl::EndsWithIgnoreCase(path, ".json")) return FileKind::kIndex;
  std::array<uint8_t, 4> magic = {};
  if (file.size_bytes() >= magic.size()) {
    LOWMEM_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(magic)));
  }
  if (std::memcmp(magic.data(), "GGUF", magic.size()) == 0)
    return FileKind::kGguf;
  return absl::UnimplementedError(
      absl::StrCat(PrintablePath(path),
                   ": not a kind of checkpoint that is read; expected a "
                   ".safetensors or .gguf "
                   "file, an index (.json) or a folder"));
}

absl::Status NoWeights(const Folder& folder) {
  const std::string shown = PrintablePath(folder.path());
  for (const absl::string_view name : kPickleNames) {
    if (folder.Has(std::string(name))) {
      return absl::UnimplementedError(
          absl::StrCat(shown, ": the weights are in ", name,
                       ", a format that is not read; expected ", kSingleName,
                       " or ", kIndexName));
    }
  }
  return absl::NotFoundError(
      absl::StrCat(shown, ": no weights in this folder; expected ", kSingleName,
                   " or ", kIndexName, ", or name a .gguf file"));
}

// A tensor of shard `shard_idx` is where the index says. One that the index
// does not list is taken as well: transformers and vLLM load every tensor of
// the shards that an index names.
absl::Status CheckListed(const ShardIndex& index, const TensorInfo& tensor,
                         uint32_t shard_idx, absl::string_view shard_path) {
  const auto listed = index.shard_by_tensor.find(tensor.name);
  if (listed == index.shard_by_tensor.end() || listed->second == shard_idx) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      PrintablePath(shard_path), ": tensor ", Printable(tensor.name),
      ": in another shard than the index says; expected ",
      Printable(index.shard_names[listed->second])));
}

// Every tensor of the index was found; its shard was proved when it was.
absl::Status CheckComplete(const ShardIndex& index,
                           const Checkpoint& checkpoint,
                           absl::string_view index_path) {
  uint64_t num_absent = 0;
  const std::pair<const std::string, uint32_t>* first = nullptr;
  for (const auto& listed : index.shard_by_tensor) {
    if (checkpoint.Find(listed.first).has_value()) continue;
    ++num_absent;
    // The hash map's order is not fixed; the message is.
    if (first == nullptr || listed.first < first->first) first = &listed;
  }
  if (num_absent == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      PrintablePath(index_path), ": tensor ", Printable(first->first),
      ": listed but absent from its shard ",
      Printable(index.shard_names[first->second]),
      num_absent == 1 ? ""
                      : absl::StrCat("; ", num_absent, " tensors in all")));
}

}  // namespace

absl::Status Checkpoint::AddSafetensors(
    std::unique_ptr<RandomAccessFile> file) {
  LOWMEM_ASSIGN_OR_RETURN(
      std::vector<TensorInfo> tensors,
      ReadSafetensorsHeader(*file, static_cast<uint32_t>(files_.size())));
  files_.push_back(std::move(file));
  if (tensors_.empty()) {
    tensors_ = std::move(tensors);
  } else {
    tensors_.insert(tensors_.end(), std::make_move_iterator(tensors.begin()),
                    std::make_move_iterator(tensors.end()));
  }
  return absl::OkStatus();
}

absl::Status Checkpoint::AddShards(const Folder& folder,
                                   const RandomAccessFile& index_file) {
  LOWMEM_ASSIGN_OR_RETURN(const ShardIndex index, ReadShardIndex(index_file));
  // All files first: an absent one is named before headers are read for
  // nothing.
  std::vector<std::unique_ptr<RandomAccessFile>> shards;
  for (const std::string& name : index.shard_names) {
    absl::StatusOr<std::unique_ptr<RandomAccessFile>> shard =
        folder.OpenFile(name);
    if (absl::IsNotFound(shard.status())) {
      return absl::NotFoundError(absl::StrCat(
          PrintablePath(JoinPath(folder.path(), name)), ": no such file; ",
          PrintablePath(index_file.path()), " names it as one of ",
          index.shard_names.size(), " shards"));
    }
    LOWMEM_RETURN_IF_ERROR(shard.status());
    shards.push_back(*std::move(shard));
  }
  for (uint32_t i = 0; i < shards.size(); ++i) {
    const std::string& shard_path = shards[i]->path();
    const size_t first = tensors_.size();
    LOWMEM_RETURN_IF_ERROR(AddSafetensors(std::move(shards[i])));
    for (size_t t = first; t < tensors_.size(); ++t) {
      LOWMEM_RETURN_IF_ERROR(CheckListed(index, tensors_[t], i, shard_path));
    }
  }
  LOWMEM_RETURN_IF_ERROR(BuildIndex());
  return CheckComplete(index, *this, index_file.path());
}

absl::Status Checkpoint::AddGguf(std::unique_ptr<RandomAccessFile> file) {
  format_ = Format::kGguf;
  LOWMEM_ASSIGN_OR_RETURN(GgufHead head, ReadGgufHead(*file));
  gguf_metadata_ = std::move(head.metadata);
  tensors_ = std::move(head.tensors);
  files_.push_back(std::move(file));
  return BuildIndex();
}

absl::Status Checkpoint::BuildIndex() {
  id_by_name_.reserve(tensors_.size());
  for (TensorId id = 0; id < tensors_.size(); ++id) {
    const TensorInfo& tensor = tensors_[id];
    const auto [other, is_new] = id_by_name_.emplace(tensor.name, id);
    if (!is_new) {
      return absl::DataLossError(absl::StrCat(
          PrintablePath(files_[tensor.file_idx]->path()), ": tensor ",
          Printable(tensor.name), ": stands in ",
          PrintablePath(files_[tensors_[other->second].file_idx]->path()),
          " too"));
    }
    const std::optional<uint64_t> total =
        CheckedAdd(total_tensor_bytes_, tensor.size_bytes);
    if (!total.has_value()) {
      return absl::DataLossError(absl::StrCat(
          PrintablePath(path_), ": the sizes of all tensors overflow 64 bits"));
    }
    total_tensor_bytes_ = *total;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(
    const std::string& path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  checkpoint->path_ = path;
  if (IsFolder(path)) {
    checkpoint->folder_ = path;
    LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Folder> folder,
                            OpenFolder(path));
    // The order in which transformers looks.
    if (folder->Has(std::string(kSingleName))) {
      LOWMEM_ASSIGN_OR_RETURN(auto file,
                              folder->OpenFile(std::string(kSingleName)));
      LOWMEM_RETURN_IF_ERROR(checkpoint->AddSafetensors(std::move(file)));
      LOWMEM_RETURN_IF_ERROR(checkpoint->BuildIndex());
    } else if (folder->Has(std::string(kIndexName))) {
      LOWMEM_ASSIGN_OR_RETURN(auto file,
                              folder->OpenFile(std::string(kIndexName)));
      LOWMEM_RETURN_IF_ERROR(checkpoint->AddShards(*folder, *file));
    } else {
      return NoWeights(*folder);
    }
    return checkpoint;
  }
  LOWMEM_ASSIGN_OR_RETURN(auto file, OpenFile(path));
  LOWMEM_ASSIGN_OR_RETURN(const FileKind kind, KindOfFile(*file));
  // Not the folder of what a link leads to: the cache's blobs lie elsewhere
  // than the configuration.
  if (kind != FileKind::kGguf) checkpoint->folder_ = FolderOfPath(path);
  switch (kind) {
    case FileKind::kGguf:
      LOWMEM_RETURN_IF_ERROR(checkpoint->AddGguf(std::move(file)));
      break;
    case FileKind::kSafetensors:
      LOWMEM_RETURN_IF_ERROR(checkpoint->AddSafetensors(std::move(file)));
      LOWMEM_RETURN_IF_ERROR(checkpoint->BuildIndex());
      break;
    case FileKind::kIndex: {
      LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Folder> folder,
                              OpenFolder(checkpoint->folder_));
      LOWMEM_RETURN_IF_ERROR(checkpoint->AddShards(*folder, *file));
      break;
    }
  }
  return checkpoint;
}

std::optional<TensorId> Checkpoint::Find(absl::string_view name) const {
  const auto found = id_by_name_.find(name);
  if (found == id_by_name_.end()) return std::nullopt;
  return found->second;
}

std::string Checkpoint::SidecarPath(absl::string_view file_name) const {
  if (format_ == Format::kGguf) return "";
  return JoinPath(folder_, file_name);
}

}  // namespace lowmem
