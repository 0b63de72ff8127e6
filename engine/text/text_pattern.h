// SPDX-License-Identifier: Apache-2.0
// What tokenizer.json calls a pattern: {"Regex": ...} or {"String": ...}, or
// one of a few classes of characters that steps have built in.

#ifndef LOWMEM_ENGINE_TEXT_TEXT_PATTERN_H_
#define LOWMEM_ENGINE_TEXT_TEXT_PATTERN_H_

#include <string>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/regex.h"
#include "storage/base/json.h"

namespace lowmem {

// A part of a text, and whether the pattern matched it.
struct MatchedPart {
  TextRange range;
  bool is_match = false;
};

using PartSink = absl::FunctionRef<absl::Status(const MatchedPart& part)>;

// Thread safety: const methods are thread-safe.
class TextPattern {
 public:
  // True for characters of a class; each such character is a match of its own.
  using CharPredicate = bool (*)(char32_t code_point);

  // Errors: kUnimplemented, kDataLoss.
  static absl::StatusOr<TextPattern> FromJson(const JsonValue& spec);
  // In PCRE2's syntax.
  static absl::StatusOr<TextPattern> FromRegex(absl::string_view regex);
  static TextPattern FromPredicate(CharPredicate predicate);
  static TextPattern FromString(std::string text);

  // Cuts the whole of `text` into matches and what lies between them, handed
  // out in order. A match may be empty where a regex says so; an empty text is
  // one empty part. REQUIRES: valid UTF-8. Errors: those of Regex::Find; what
  // `on_part` returns ends it.
  absl::Status Cut(absl::string_view text, RegexScratch& scratch,
                   PartSink on_part) const;

 private:
  using Kind = std::variant<Regex, std::string, CharPredicate>;
  explicit TextPattern(Kind kind) : kind_(std::move(kind)) {}

  Kind kind_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TEXT_PATTERN_H_
