// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json: which file of a sharded checkpoint holds which
// tensor. Names of files are proved to stay beneath the folder before anything
// is opened; whether the shards agree is proved by Checkpoint.

#ifndef LOWMEM_STORAGE_SHARD_INDEX_H_
#define LOWMEM_STORAGE_SHARD_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file.h"

namespace lowmem {

struct ShardIndex {
  // In the order of their names; each once.
  std::vector<std::string> shard_names;
  // Tensor name -> index into shard_names.
  absl::flat_hash_map<std::string, uint32_t> shard_by_tensor;
};

// Keys other than weight_map (metadata.total_size among them, which published
// files get wrong) are not looked at.
// Memory: about 3 times the file, at most limits::kShardIndexBytes.
// Errors: kDataLoss; kUnavailable.
absl::StatusOr<ShardIndex> ReadShardIndex(const RandomAccessFile& file);

// Whether a file name from an index may be joined to its folder: relative, no
// ".", ".." or empty component, no backslash, no NUL, ends in ".safetensors".
bool IsSafeShardName(absl::string_view name);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_SHARD_INDEX_H_
