// SPDX-License-Identifier: Apache-2.0
// FileMapping over mmap. A file that is truncated while it is mapped kills the
// process with SIGBUS on the next touch of a lost page; where that must not be,
// read instead.

#ifndef LOWMEM_STORAGE_POSIX_MAPPING_H_
#define LOWMEM_STORAGE_POSIX_MAPPING_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "storage/file.h"
#include "storage/posix_fd.h"

namespace lowmem {

// Maps the first `size_bytes` of the file, shared and read-only.
// Errors: kResourceExhausted when address space is short; kUnavailable.
absl::StatusOr<std::unique_ptr<FileMapping>> MapFile(
    std::shared_ptr<const UniqueFd> fd, uint64_t size_bytes,
    const std::string& path);

// Bytes of the file's first `size_bytes` that the page cache holds; nullopt
// where the kernel does not tell (it answers only who may write the file).
std::optional<uint64_t> CountCachedBytes(const UniqueFd& fd,
                                         uint64_t size_bytes);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_POSIX_MAPPING_H_
