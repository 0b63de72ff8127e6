// SPDX-License-Identifier: Apache-2.0
// Any checkpoint that is read, as a Hugging Face folder in bf16 that
// transformers loads: weights, config.json, generation_config.json (end ids
// only) and the tokenizer's files.
//
// Weights are decoded exactly and rounded to nearest, ties to even; the row
// order that GGUF gives q and k of some families is undone. Integers are
// carried over.

#ifndef LOWMEM_ENGINE_GENERATE_CONVERT_H_
#define LOWMEM_ENGINE_GENERATE_CONVERT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace lowmem {

struct ConvertOptions {
  // As Checkpoint::Open takes it.
  std::string in_path;
  // The folder to make. Its parent must exist.
  std::string out_path;
  // Whether an existing `out_path` is replaced, once the new one is complete.
  // Only a folder that is empty is, or one with a config.json and nothing but
  // what a model's folder has (FirstForeignEntry); never a link, which would
  // leave open whether it or its target is meant.
  bool force = false;
  // A larger model is split into files of at most this, named by an index; one
  // tensor is never split. The size that Hugging Face's own writer took for
  // long.
  uint64_t max_shard_bytes = 5'000'000'000;
  // Called now and then with the bytes of weights written and to be written.
  // May be empty.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
  // Looked at every few hundred KiB. May be nullptr.
  const std::atomic<bool>* cancel = nullptr;
};

// Writes to a temporary folder beside `out_path`, syncs it and renames it;
// after a failure nothing of it is left. Memory: under 2 MiB beside the open
// checkpoint, its vocabulary once. Errors: those of Checkpoint::Open,
// ReadModelConfig and ResolveWeights; kInvalidArgument when `out_path` exists
// (or is the input) and may not be replaced; kUnimplemented for what a folder
// of the family cannot say (rope divisors of no known scaling, a tensor without
// a name, a dtype that is not decoded); kUnavailable for a full disk;
// kCancelled.
absl::Status ConvertCheckpoint(const ConvertOptions& options);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_CONVERT_H_
