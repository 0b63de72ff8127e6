// SPDX-License-Identifier: Apache-2.0
// Which files belong to a model: what an output must not destroy, and what it
// may replace. Names and identities only; nothing is read.

#ifndef LOWMEM_STORAGE_MODEL_FILES_H_
#define LOWMEM_STORAGE_MODEL_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/checkpoint.h"

namespace lowmem {

// Whether a published folder of a model in Hugging Face's form has files of
// this name (config.json, *.safetensors, tokenizer*.json, README.md, ...).
bool IsModelFileName(absl::string_view name);

// The first entry of `folder`, in order of names, that no published model
// folder has: another name, or neither a file nor a link. "" when there is
// none. The `.cache` that the hub's client leaves is an entry of a model.
// Errors: kUnavailable when the folder cannot be read.
absl::StatusOr<std::string> FirstForeignEntry(const std::string& folder);

// Paths of the files of an open checkpoint: those with the weights, and, unless
// it is a .gguf, whatever else stands beside them.
std::vector<std::string> FilesOfModel(const Checkpoint& checkpoint);

// Whether a file may be written to `path` while the model is in use, and leaves
// the model as it is. Links are followed.
// Errors: those of ResolveOutputFile; kInvalidArgument for one of the model's
// files under whatever name, and for a name with the ending of a model's file
// beside the weights: .gguf, and unless the model is a .gguf itself,
// .safetensors and .json.
absl::Status CheckSparesModel(const Checkpoint& checkpoint,
                              const std::string& path);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_MODEL_FILES_H_
