// SPDX-License-Identifier: Apache-2.0
// A folder that appears under its name only once it is complete: filled as a
// temporary beside it, synced, renamed.

#ifndef LOWMEM_STORAGE_ATOMIC_FOLDER_H_
#define LOWMEM_STORAGE_ATOMIC_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lowmem {

// Destroyed before Commit, it removes what was written, and what stood under
// the name is untouched. Thread safety: one thread at a time.
class AtomicFolder {
 public:
  // Errors: kInvalidArgument for what is no name of a folder or is too long;
  // kNotFound (the folder around it is absent); kUnavailable.
  static absl::StatusOr<std::unique_ptr<AtomicFolder>> Create(
      const std::string& path);
  virtual ~AtomicFolder() = default;

  // Where files are to be written until Commit.
  virtual const std::string& temporary_path() const = 0;

  // Gives the folder its name. With `replace`, whatever stands there is swapped
  // out in one step and then removed. Errors: kInvalidArgument when something
  // stands there and `replace` is false; kUnavailable.
  virtual absl::Status Commit(bool replace) = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_ATOMIC_FOLDER_H_
