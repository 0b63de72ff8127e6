// SPDX-License-Identifier: Apache-2.0
// UTF-8 as a tokenizer needs it: proving a text, writing characters, and
// turning bytes that may be cut anywhere into text without ever showing half a
// character. Decoding single code points is storage/base/utf8.h.

#ifndef LOWMEM_ENGINE_TEXT_UTF8_TEXT_H_
#define LOWMEM_ENGINE_TEXT_UTF8_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem {

// Offset of the first byte that does not belong to a whole character; nullopt
// when `text` is valid UTF-8 (no overlong forms, no surrogates, at most
// U+10FFFF).
std::optional<size_t> FindInvalidUtf8(absl::string_view text);

// Appends `code_point`, which must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

// The code point in front of `end`. REQUIRES: valid UTF-8, 0 < end <= size.
char32_t CodePointBefore(absl::string_view text, size_t end);

// Unicode White_Space, which is also what \s means to the reference.
bool IsWhiteSpace(char32_t code_point);

// Appends `bytes` as text: whole characters as they are, each maximal invalid
// part as one U+FFFD (Unicode 15.0, section 3.9, "substitution of maximal
// subparts"). Bytes at the end that could still become a character are left,
// unless `at_end`. Returns how many bytes were used.
size_t AppendAsText(absl::string_view bytes, bool at_end, std::string& out);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_UTF8_TEXT_H_
