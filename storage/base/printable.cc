// SPDX-License-Identifier: Apache-2.0
#include "storage/base/printable.h"

namespace lowmem {

std::string Printable(absl::string_view text, size_t max_chars) {
  return std::string(text.substr(0, max_chars));
}

}  // namespace lowmem
