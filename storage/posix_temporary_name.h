// SPDX-License-Identifier: Apache-2.0
// Names for what is not finished yet: ".NAME.1a2b3c4d.tmp", beside the final
// name, so that a rename stays within one file system.

#ifndef LOWMEM_STORAGE_POSIX_TEMPORARY_NAME_H_
#define LOWMEM_STORAGE_POSIX_TEMPORARY_NAME_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace lowmem {

// Calls `create` with one name after another until it succeeds or fails for
// another reason than that the name is taken. Returns 0 and the name, or errno.
// `create` returns whether it created the entry, and leaves errno when not.
int CreateUnderTemporaryName(absl::string_view name,
                             std::string* temporary_name,
                             absl::FunctionRef<bool(const char*)> create);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_POSIX_TEMPORARY_NAME_H_
