// SPDX-License-Identifier: Apache-2.0
// A published model as one table of tensors, whatever its format and however
// many files it came in. Opening reads headers only, never a weight.

#ifndef LOWMEM_STORAGE_CHECKPOINT_H_
#define LOWMEM_STORAGE_CHECKPOINT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file.h"
#include "storage/gguf_metadata.h"
#include "storage/tensor_info.h"

namespace lowmem {

class Folder;

// Index into Checkpoint::tensors().
using TensorId = uint32_t;

// Ownership: owns the open files. Thread safety: const methods are thread-safe.
// Memory: about 150 bytes a tensor, plus the small values of GGUF metadata.
class Checkpoint {
 public:
  enum class Format { kSafetensors, kGguf };

  // `path` is a folder that holds model.safetensors or
  // model.safetensors.index.json (a cache snapshot of links too), one
  // .safetensors file, an index file, or a .gguf file.
  // Errors: kNotFound for the path, a needed file in it or a shard; kDataLoss
  // for damage; kUnimplemented for a format that is not read.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(
      const std::string& path);

  Format format() const { return format_; }
  // As given to Open.
  const std::string& path() const { return path_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<std::unique_ptr<RandomAccessFile>>& files() const {
    return files_;
  }
  std::optional<TensorId> Find(absl::string_view name) const;
  // Sum over the tensors.
  uint64_t total_tensor_bytes() const { return total_tensor_bytes_; }

  // nullptr unless the format is kGguf.
  const GgufMetadata* gguf_metadata() const {
    return format_ == Format::kGguf ? &gguf_metadata_ : nullptr;
  }

  // Path of a file beside the weights ("config.json", "tokenizer.json"),
  // whether it exists or not. Empty for GGUF.
  std::string SidecarPath(absl::string_view file_name) const;

 private:
  Checkpoint() = default;
  absl::Status AddSafetensors(std::unique_ptr<RandomAccessFile> file);
  absl::Status AddShards(const Folder& folder,
                         const RandomAccessFile& index_file);
  absl::Status AddGguf(std::unique_ptr<RandomAccessFile> file);
  // Fills id_by_name_ and the total once tensors_ is complete.
  absl::Status BuildIndex();

  Format format_ = Format::kSafetensors;
  std::string path_;
  std::string folder_;
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
  std::vector<TensorInfo> tensors_;
  absl::flat_hash_map<absl::string_view, TensorId> id_by_name_;
  GgufMetadata gguf_metadata_;
  uint64_t total_tensor_bytes_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_CHECKPOINT_H_
