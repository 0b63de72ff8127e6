// SPDX-License-Identifier: Apache-2.0
// BlockFile over a second open of a descriptor's own file. For the posix_*
// sources only.

#ifndef LOWMEM_STORAGE_POSIX_BLOCK_FILE_H_
#define LOWMEM_STORAGE_POSIX_BLOCK_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "storage/block_file.h"
#include "storage/posix_fd.h"

namespace lowmem {

// Opens what `fd` has open once more; `path` is for messages only, the file is
// never sought by name.
// Errors: kUnimplemented when the system or the file system has no such access;
// kUnavailable when what was opened is another file.
absl::StatusOr<std::unique_ptr<BlockFile>> ReopenForBlocks(
    const UniqueFd& fd, const std::string& path, BlockCaching caching);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_POSIX_BLOCK_FILE_H_
