// SPDX-License-Identifier: Apache-2.0
// One strict UTF-8 decoder for everything in storage/base that looks at text.

#ifndef LOWMEM_STORAGE_BASE_UTF8_H_
#define LOWMEM_STORAGE_BASE_UTF8_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace lowmem {

// A code point and how many bytes it took. Where the bytes are no UTF-8 (a
// stray or missing continuation, an overlong form, a surrogate, beyond
// U+10FFFF) `ok` is false and the first byte alone is consumed.
struct Utf8Step {
  char32_t code_point;
  size_t num_bytes;
  bool ok;
};

// Decodes what `text` begins with.
// REQUIRES: !text.empty().
Utf8Step DecodeUtf8(absl::string_view text);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_UTF8_H_
