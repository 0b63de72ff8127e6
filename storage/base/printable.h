// SPDX-License-Identifier: Apache-2.0
// Text from files made safe for a one-line message.

#ifndef LOWMEM_STORAGE_BASE_PRINTABLE_H_
#define LOWMEM_STORAGE_BASE_PRINTABLE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "storage/base/limits.h"

namespace lowmem {

// `text` with control bytes, ESC, invalid UTF-8, line and paragraph separators
// and bidirectional controls written as \xNN or \u{NNNN}, cut to `max_chars`
// code points with "..." behind.
std::string Printable(absl::string_view text,
                      size_t max_chars = limits::kMessageTextChars);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_PRINTABLE_H_
