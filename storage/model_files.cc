// SPDX-License-Identifier: Apache-2.0
#include "storage/model_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/output_file.h"

namespace lowmem {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kNames[] = {
    ".gitattributes",         "README.md",          "added_tokens.json",
    "chat_template.jinja",    "chat_template.json", "config.json",
    "generation_config.json", "merges.txt",         "special_tokens_map.json",
    "tokenizer.model",        "vocab.json",
};

// Of the hub's client, with the times of its downloads.
constexpr char kCacheName[] = ".cache";
constexpr char kCacheEntry[] = "huggingface";

bool Same(const std::string& a, const std::string& b) {
  std::error_code error;  // what cannot be looked at is not the same
  return fs::equivalent(a, b, error);
}

bool IsCacheOfHub(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() != kCacheEntry) return false;
  }
  return !error;
}

bool BelongsToModel(const fs::directory_entry& entry) {
  std::error_code error;
  const fs::file_type type = entry.symlink_status(error).type();
  const std::string name = entry.path().filename();
  if (type == fs::file_type::directory) {
    return name == kCacheName && IsCacheOfHub(entry.path());
  }
  return (type == fs::file_type::regular || type == fs::file_type::symlink) &&
         IsModelFileName(name);
}

}  // namespace

bool IsModelFileName(absl::string_view name) {
  return std::find(std::begin(kNames), std::end(kNames), name) !=
             std::end(kNames) ||
         absl::EndsWith(name, ".safetensors") ||
         absl::EndsWith(name, ".index.json") ||
         (absl::StartsWith(name, "tokenizer") &&
          absl::EndsWith(name, ".json")) ||
         absl::StartsWith(name, "LICENSE");
}

absl::StatusOr<std::string> FirstForeignEntry(const std::string& folder) {
  std::error_code error;
  std::string first;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename();
    if ((first.empty() || name < first) && !BelongsToModel(*it)) first = name;
  }
  if (!error) return first;
  return absl::UnavailableError(absl::StrCat(
      PrintablePath(folder), ": cannot be listed: ", error.message()));
}

std::vector<std::string> FilesOfModel(const Checkpoint& checkpoint) {
  std::vector<std::string> paths;
  for (const auto& file : checkpoint.files()) paths.push_back(file->path());
  if (checkpoint.format() == Checkpoint::Format::kGguf) return paths;
  const std::string folder =
      FolderOfPath(checkpoint.SidecarPath("config.json"));
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_regular_file(error)) paths.push_back(it->path());
  }
  return paths;
}

absl::Status CheckSparesModel(const Checkpoint& checkpoint,
                              const std::string& path) {
  LOWMEM_ASSIGN_OR_RETURN(const std::string target, ResolveOutputFile(path));
  for (const std::string& file : FilesOfModel(checkpoint)) {
    if (Same(target, file)) {
      return absl::InvalidArgumentError(
          absl::StrCat(PrintablePath(path),
                       ": is a file of the model in use; choose another name"));
    }
  }
  const bool is_gguf = checkpoint.format() == Checkpoint::Format::kGguf;
  const bool has_ending =
      absl::EndsWithIgnoreCase(target, ".gguf") ||
      (!is_gguf && (absl::EndsWithIgnoreCase(target, ".safetensors") ||
                    absl::EndsWithIgnoreCase(target, ".json")));
  if (!has_ending) return absl::OkStatus();
  for (const auto& file : checkpoint.files()) {
    if (Same(FolderOfPath(target), FolderOfPath(file->path()))) {
      return absl::InvalidArgumentError(absl::StrCat(
          PrintablePath(path),
          ": could be taken for a file of the model beside it; choose another "
          "folder"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lowmem
