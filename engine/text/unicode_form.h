// SPDX-License-Identifier: Apache-2.0
// Unicode normal forms. Character tables are utf8proc's (Unicode 14 in Debian
// 12); a text with newer characters may come out otherwise than elsewhere.

#ifndef LOWMEM_ENGINE_TEXT_UNICODE_FORM_H_
#define LOWMEM_ENGINE_TEXT_UNICODE_FORM_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Appends `text` in `form`. n log n in the length, however many combining marks
// follow one another. REQUIRES: valid UTF-8.
void AppendInForm(absl::string_view text, UnicodeForm form, std::string& out);

// What AppendInForm takes beside `out`, at most about: it keeps the characters
// of the longest stretch without ASCII together.
uint64_t WorkBytesOfForm(absl::string_view text, UnicodeForm form);

// Appends `text` with each character's lower case (no rule looks at
// neighbours). REQUIRES: valid UTF-8.
void AppendLowerCase(absl::string_view text, std::string& out);

// General category N (numbers) and P (punctuation; ASCII symbols count too).
bool IsNumeric(char32_t code_point);
bool IsPunctuation(char32_t code_point);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_UNICODE_FORM_H_
