// SPDX-License-Identifier: Apache-2.0
// A folder that is opened once; files are opened beneath it, so that a rename
// of the folder in between cannot mix two models. And a folder that is written
// as a whole.

#ifndef LOWMEM_STORAGE_FOLDER_H_
#define LOWMEM_STORAGE_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/file.h"

namespace lowmem {

// Thread safety: thread-safe.
class Folder {
 public:
  virtual ~Folder() = default;
  // As the user named it.
  virtual const std::string& path() const = 0;
  // Opens a regular file in it, as lowmem::OpenFile does. Symbolic links are
  // followed wherever they lead: Hugging Face's cache is made of them. `name`
  // is trusted to be relative and without "..".
  virtual absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenFile(
      const std::string& name) const = 0;
  // Whether something stands under `name`; a dangling link does not.
  virtual bool Has(const std::string& name) const = 0;
};

// Errors: kNotFound (also when it is no folder); kUnavailable.
absl::StatusOr<std::unique_ptr<Folder>> OpenFolder(const std::string& path);

// Whether `path` names a folder, or a link to one.
bool IsFolder(const std::string& path);

// "folder/name"; just the name where the folder is empty.
std::string JoinPath(absl::string_view folder, absl::string_view name);
// What stands before the last slash of `path`, "." where there is none.
std::string FolderOfPath(absl::string_view path);
// As messages show it: escaped, and cut only where it would fill the screen.
std::string PrintablePath(absl::string_view path);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_FOLDER_H_
