// SPDX-License-Identifier: Apache-2.0
// Where a file that is to be written really goes.

#ifndef LOWMEM_STORAGE_OUTPUT_FILE_H_
#define LOWMEM_STORAGE_OUTPUT_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace lowmem {

// The path that a rename must take so that `path` names the new file: `path`
// itself, or what it leads to as a symbolic link. A regular file or nothing
// stands there, in a folder that exists; at the time of the call, which is no
// promise for later.
// Errors: kInvalidArgument for what is no name of a file, for anything but a
// regular file under it (folder, FIFO, socket, device), for links in a circle
// and for a name that is too long; kNotFound for an absent folder, that of a
// link's target too; kUnavailable.
absl::StatusOr<std::string> ResolveOutputFile(const std::string& path);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_OUTPUT_FILE_H_
