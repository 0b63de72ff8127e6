// SPDX-License-Identifier: Apache-2.0
#include "engine/text/text_pattern.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/regex_syntax.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

// Hands out matches in order and fills in what lies between them.
class PartWriter {
 public:
  explicit PartWriter(PartSink on_part) : on_part_(on_part) {}
  absl::Status AddMatch(TextRange match) {
    LOWMEM_RETURN_IF_ERROR(AddGap(match.begin));
    end_ = match.end;
    return on_part_({match, true});
  }
  absl::Status AddGap(size_t end) {
    return end_ == end ? absl::OkStatus() : on_part_({{end_, end}, false});
  }

 private:
  PartSink on_part_;
  size_t end_ = 0;
};

absl::Status CutByRegex(const Regex& regex, absl::string_view text,
                        RegexScratch& scratch, PartWriter& writer) {
  scratch.Allow(text.size());
  size_t start = 0;
  std::optional<size_t> last_end;
  while (start <= text.size()) {
    LOWMEM_ASSIGN_OR_RETURN(const std::optional<TextRange> match,
                            regex.Find(text, start, scratch));
    if (!match.has_value()) break;
    if (match->empty() && last_end == match->end) {
      // An empty match right behind the last one is none: go on by a character.
      if (start == text.size()) break;
      start += DecodeUtf8(text.substr(start)).num_bytes;
      continue;
    }
    LOWMEM_RETURN_IF_ERROR(writer.AddMatch(*match));
    start = match->end;
    last_end = match->end;
  }
  return absl::OkStatus();
}

absl::Status CutByString(absl::string_view sought, absl::string_view text,
                         PartWriter& writer) {
  if (sought.empty()) return absl::OkStatus();
  for (size_t pos = text.find(sought); pos != text.npos;
       pos = text.find(sought, pos + sought.size())) {
    LOWMEM_RETURN_IF_ERROR(writer.AddMatch({pos, pos + sought.size()}));
  }
  return absl::OkStatus();
}

absl::Status CutByPredicate(TextPattern::CharPredicate predicate,
                            absl::string_view text, PartWriter& writer) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = DecodeUtf8(text.substr(pos));
    if (predicate(step.code_point)) {
      LOWMEM_RETURN_IF_ERROR(writer.AddMatch({pos, pos + step.num_bytes}));
    }
    pos += step.num_bytes;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextPattern> TextPattern::FromJson(const JsonValue& spec) {
  if (spec.members().size() == 1) {
    const auto& [kind, value] = spec.members().front();
    if (kind == "String" && value.is_string()) {
      // To the reference a string is an escaped regex, and an empty one matches
      // between any two characters.
      if (value.string().empty()) return FromRegex("");
      return FromString(value.string());
    }
    if (kind == "Regex" && value.is_string()) {
      LOWMEM_ASSIGN_OR_RETURN(const std::string regex,
                              TranslateOniguruma(value.string()));
      return FromRegex(regex);
    }
  }
  return absl::DataLossError(
      "\"pattern\" is malformed; expected {\"Regex\": ...} or {\"String\": "
      "...}");
}

absl::StatusOr<TextPattern> TextPattern::FromRegex(absl::string_view regex) {
  LOWMEM_ASSIGN_OR_RETURN(Regex compiled, Regex::Compile(regex));
  return TextPattern(std::move(compiled));
}

TextPattern TextPattern::FromPredicate(CharPredicate predicate) {
  return TextPattern(predicate);
}

TextPattern TextPattern::FromString(std::string text) {
  return TextPattern(std::move(text));
}

absl::Status TextPattern::Cut(absl::string_view text, RegexScratch& scratch,
                              PartSink on_part) const {
  if (text.empty()) return on_part({{0, 0}, false});
  PartWriter writer(on_part);
  if (const Regex* regex = std::get_if<Regex>(&kind_)) {
    LOWMEM_RETURN_IF_ERROR(CutByRegex(*regex, text, scratch, writer));
  } else if (const std::string* sought = std::get_if<std::string>(&kind_)) {
    LOWMEM_RETURN_IF_ERROR(CutByString(*sought, text, writer));
  } else {
    LOWMEM_RETURN_IF_ERROR(
        CutByPredicate(std::get<CharPredicate>(kind_), text, writer));
  }
  return writer.AddGap(text.size());
}

}  // namespace lowmem
