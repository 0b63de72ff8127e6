// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/convert.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/generate/convert_config.h"
#include "engine/generate/convert_tensors.h"
#include "engine/generate/convert_tokenizer.h"
#include "engine/generate/generation_config.h"
#include "engine/model/model_config.h"
#include "engine/model/model_weights.h"
#include "engine/text/gguf_vocabulary.h"
#include "engine/text/tokenizer.h"
#include "storage/atomic_folder.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"
#include "storage/checkpoint.h"
#include "storage/file.h"
#include "storage/folder.h"
#include "storage/model_files.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigName[] = "config.json";

// Files beside published weights that are carried over as they are, where
// present.
constexpr absl::string_view kCarriedNames[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
    "chat_template.json",
};

absl::Status WriteText(const std::string& path, absl::string_view text) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  LOWMEM_RETURN_IF_ERROR(file->Append(text));
  return file->Commit();
}

absl::Status CopyFile(const std::string& from, const std::string& to) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> source,
                          OpenFile(from));
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> target,
                          AtomicFile::Create(to));
  std::vector<uint8_t> piece(64 << 10);
  for (uint64_t ofs = 0; ofs < source->size_bytes(); ofs += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), source->size_bytes() - ofs));
    LOWMEM_RETURN_IF_ERROR(source->Read(ofs, absl::MakeSpan(piece)));
    LOWMEM_RETURN_IF_ERROR(target->Append(piece));
  }
  LOWMEM_RETURN_IF_ERROR(source->CheckUnchanged());
  return target->Commit();
}

// Whether `path` is `folder` or lies in it. Links are resolved.
bool IsWithin(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  if (error) return false;
  // "folder/." has no empty last component, which a trailing slash would leave.
  const fs::path outer = fs::weakly_canonical(fs::path(folder) / ".", error);
  if (error) return false;
  const auto differs =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return differs.first == outer.end() ||
         (differs.first->empty() && std::next(differs.first) == outer.end());
}

absl::Status RefuseOutput(const ConvertOptions& options,
                          absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(PrintablePath(options.out_path), ": ", what));
}

// Whether a file of the input lies in the output, by its path, through links or
// through another mount of the same folder.
bool TakesPlaceOfInput(const ConvertOptions& options,
                       const Checkpoint& checkpoint) {
  std::vector<std::string> inputs = FilesOfModel(checkpoint);
  // What was named too: it may be a link to a blob that lies elsewhere.
  inputs.push_back(options.in_path);
  inputs.push_back(FolderOfPath(options.in_path));
  std::error_code error;
  for (const std::string& input : inputs) {
    if (IsWithin(input, options.out_path)) return true;
    for (fs::directory_iterator it(options.out_path, error), end;
         !error && it != end; it.increment(error)) {
      std::error_code unknown;  // what leads nowhere is no input
      if (!it->is_symlink(unknown) &&
          fs::equivalent(it->path(), input, unknown))
        return true;
    }
  }
  return false;
}

// What is asked for can be made without losing anything that was not offered.
absl::Status CheckOutput(const ConvertOptions& options,
                         const Checkpoint& checkpoint) {
  if (TakesPlaceOfInput(options, checkpoint)) {
    return RefuseOutput(options,
                        "the output would take the place of the input; "
                        "choose another folder");
  }
  std::error_code error;
  // "link/" would be what the link leads to.
  const std::string trimmed =
      options.out_path.substr(0, options.out_path.find_last_not_of('/') + 1);
  const fs::file_status status = fs::symlink_status(trimmed, error);
  // What cannot be looked at is for AtomicFolder to say.
  if (!fs::exists(status)) return absl::OkStatus();
  if (!options.force) {
    return RefuseOutput(options,
                        "exists already; choose another folder, or replace "
                        "it with --force");
  }
  if (fs::is_symlink(status)) {
    return RefuseOutput(options,
                        "is not replaced, because it is a link; name the "
                        "folder itself");
  }
  constexpr absl::string_view kNoModel =
      "is not replaced, because it is no folder of a model; expected an empty "
      "folder or one with a config.json and nothing foreign";
  if (!fs::is_directory(status)) return RefuseOutput(options, kNoModel);
  LOWMEM_ASSIGN_OR_RETURN(const std::string foreign,
                          FirstForeignEntry(trimmed));
  if (!foreign.empty()) {
    return RefuseOutput(
        options, absl::StrCat(kNoModel, ", got ", PrintablePath(foreign)));
  }
  if (fs::is_empty(trimmed, error) ||
      fs::exists(fs::path(trimmed) / kConfigName, error)) {
    return absl::OkStatus();
  }
  return RefuseOutput(options, kNoModel);
}

bool IsCancelled(const ConvertOptions& options) {
  return options.cancel != nullptr &&
         options.cancel->load(std::memory_order_relaxed);
}

// Everything but the weights, from GGUF metadata.
absl::Status WriteFromGguf(const Checkpoint& checkpoint,
                           const ModelConfig& config,
                           const std::string& folder) {
  const GgufMetadata& metadata = *checkpoint.gguf_metadata();
  // Proves tokens and merges; what is written is what it read.
  LOWMEM_RETURN_IF_ERROR(
      LoadTokenizerFromGguf(metadata, checkpoint.path()).status());
  LOWMEM_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary,
                          GgufVocabulary::Read(metadata));
  LOWMEM_ASSIGN_OR_RETURN(
      const std::string config_json,
      MakeConfigJson(config, vocabulary.padding ? vocabulary.padding->id : -1,
                     checkpoint.path()));
  LOWMEM_RETURN_IF_ERROR(WriteText(JoinPath(folder, kConfigName), config_json));
  if (!vocabulary.eos_ids.empty()) {
    LOWMEM_RETURN_IF_ERROR(
        WriteText(JoinPath(folder, "generation_config.json"),
                  MakeGenerationConfigJson(vocabulary.eos_ids)));
  }
  LOWMEM_RETURN_IF_ERROR(WriteTokenizerJson(
      vocabulary, metadata, JoinPath(folder, "tokenizer.json")));
  return WriteTokenizerConfigJson(vocabulary, metadata,
                                  config.max_context_tokens,
                                  JoinPath(folder, "tokenizer_config.json"));
}

// Everything but the weights, from the files beside them.
absl::Status WriteFromFolder(const Checkpoint& checkpoint,
                             const ModelConfig& config,
                             const std::string& folder) {
  const std::string config_path = checkpoint.SidecarPath(kConfigName);
  LOWMEM_ASSIGN_OR_RETURN(const std::string text,
                          ReadWholeFile(config_path, limits::kConfigJsonBytes));
  LOWMEM_ASSIGN_OR_RETURN(const std::string config_json,
                          UpdateConfigJson(text, config_path));
  LOWMEM_RETURN_IF_ERROR(WriteText(JoinPath(folder, kConfigName), config_json));
  LOWMEM_ASSIGN_OR_RETURN(const GenerationConfig generation,
                          ReadGenerationConfig(checkpoint));
  const absl::Span<const int32_t> lists[] = {generation.eos_ids,
                                             config.eos_ids};
  const std::vector<int32_t> eos_ids = UnionOfIds(lists);
  if (!eos_ids.empty()) {
    LOWMEM_RETURN_IF_ERROR(WriteText(JoinPath(folder, "generation_config.json"),
                                     MakeGenerationConfigJson(eos_ids)));
  }
  for (const absl::string_view name : kCarriedNames) {
    const absl::Status copied =
        CopyFile(checkpoint.SidecarPath(name), JoinPath(folder, name));
    if (!copied.ok() && !absl::IsNotFound(copied)) return copied;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ConvertCheckpoint(const ConvertOptions& options) {
  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                          Checkpoint::Open(options.in_path));
  LOWMEM_ASSIGN_OR_RETURN(const ModelConfig config,
                          ReadModelConfig(*checkpoint));
  LOWMEM_RETURN_IF_ERROR(ResolveWeights(config, *checkpoint).status());
  LOWMEM_ASSIGN_OR_RETURN(const std::vector<TensorConversion> plan,
                          PlanConversion(*checkpoint, config));
  LOWMEM_RETURN_IF_ERROR(CheckOutput(options, *checkpoint));

  LOWMEM_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFolder> out,
                          AtomicFolder::Create(options.out_path));
  const bool is_gguf = checkpoint->format() == Checkpoint::Format::kGguf;
  LOWMEM_RETURN_IF_ERROR((is_gguf ? WriteFromGguf : WriteFromFolder)(
      *checkpoint, config, out->temporary_path()));

  uint64_t total_bytes = 0;
  for (const TensorConversion& tensor : plan) total_bytes += tensor.size_bytes;
  LOWMEM_RETURN_IF_ERROR(
      WriteWeights(*checkpoint, plan, out->temporary_path(),
                   options.max_shard_bytes, [&](uint64_t done_bytes) {
                     if (IsCancelled(options))
                       return absl::CancelledError("interrupted");
                     if (options.progress)
                       options.progress(done_bytes, total_bytes);
                     return absl::OkStatus();
                   }));
  // Again: what came into the old folder meanwhile was not offered.
  LOWMEM_RETURN_IF_ERROR(CheckOutput(options, *checkpoint));
  return out->Commit(options.force);
}

}  // namespace lowmem
