// SPDX-License-Identifier: Apache-2.0
// Patterns in tokenizer.json are written for Oniguruma with Ruby's syntax. This
// says the same to PCRE2, or refuses what PCRE2 would understand differently.
// Sources: Oniguruma doc/RE, pcre2pattern(3).

#ifndef LOWMEM_ENGINE_TEXT_REGEX_SYNTAX_H_
#define LOWMEM_ENGINE_TEXT_REGEX_SYNTAX_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem {

// The inside of a bracketed class with the word characters that the reference's
// own rules mean (Unicode TR 18, annex C). Oniguruma's \w differs from it.
inline constexpr absl::string_view kWordClass =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control})";

// Errors: kUnimplemented naming the construct. Syntax errors are left for the
// compiler to find.
absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_REGEX_SYNTAX_H_
