// SPDX-License-Identifier: Apache-2.0
// The weights of a conversion: which tensor of the source becomes which of the
// folder, and the stream of bytes from one to the other.

#ifndef LOWMEM_ENGINE_GENERATE_CONVERT_TENSORS_H_
#define LOWMEM_ENGINE_GENERATE_CONVERT_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model_config.h"
#include "storage/checkpoint.h"
#include "storage/safetensors_writer.h"

namespace lowmem {

struct TensorConversion {
  TensorSpec
      target;  // name and shape as published; BF16, or the source's integer
  TensorId source = 0;
  uint64_t size_bytes = 0;  // of the target
  // Above 0: rows of each of so many heads lie with rope pairs as neighbours
  // (2j, 2j + 1) and go back to halves (j, j + rows/2).
  uint32_t num_permuted_heads = 0;
};

// From GGUF, the family's tensors by their published names, in the order of
// use; from safetensors, all of the file in its order. Errors: kUnimplemented
// for a GGUF tensor that the family has no name for, and for a dtype that is
// neither decoded nor an integer.
absl::StatusOr<std::vector<TensorConversion>> PlanConversion(
    const Checkpoint& checkpoint, const ModelConfig& config);

// Writes model.safetensors into `folder_path`, or shards and their index when
// all is larger than `max_shard_bytes`. `progress` is called with the bytes
// written so far after every few hundred KiB; a status other than OK ends the
// work with it. Memory: under 1 MiB, whatever the size of a tensor. Errors:
// kUnavailable (reading, a source that changed, a full disk); the callback's.
absl::Status WriteWeights(
    const Checkpoint& checkpoint, absl::Span<const TensorConversion> plan,
    const std::string& folder_path, uint64_t max_shard_bytes,
    absl::FunctionRef<absl::Status(uint64_t done_bytes)> progress);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_CONVERT_TENSORS_H_
