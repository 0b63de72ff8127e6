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

// Collects matches in order and fills in what lies between them.
class PartCollector {
 public:
  explicit PartCollector(std::vector<MatchedPart>& parts) : parts_(parts) {}
  void AddMatch(TextRange match) {
    AddGap(match.begin);
    parts_.push_back({match, true});
    end_ = match.end;
  }
  void AddGap(size_t end) {
    if (end_ != end) parts_.push_back({{end_, end}, false});
  }

 private:
  std::vector<MatchedPart>& parts_;
  size_t end_ = 0;
};

absl::Status CutByRegex(const Regex& regex, absl::string_view text,
                        RegexScratch& scratch, PartCollector& collector) {
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
    collector.AddMatch(*match);
    start = match->end;
    last_end = match->end;
  }
  return absl::OkStatus();
}

void CutByString(absl::string_view sought, absl::string_view text,
                 PartCollector& collector) {
  if (sought.empty()) return;
  for (size_t pos = text.find(sought); pos != text.npos;
       pos = text.find(sought, pos + sought.size())) {
    collector.AddMatch({pos, pos + sought.size()});
  }
}

void CutByPredicate(TextPattern::CharPredicate predicate,
                    absl::string_view text, PartCollector& collector) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = DecodeUtf8(text.substr(pos));
    if (predicate(step.code_point)) {
      collector.AddMatch({pos, pos + step.num_bytes});
    }
    pos += step.num_bytes;
  }
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
                              std::vector<MatchedPart>& parts) const {
  if (text.empty()) {
    parts.push_back({{0, 0}, false});
    return absl::OkStatus();
  }
  PartCollector collector(parts);
  if (const Regex* regex = std::get_if<Regex>(&kind_)) {
    LOWMEM_RETURN_IF_ERROR(CutByRegex(*regex, text, scratch, collector));
  } else if (const std::string* sought = std::get_if<std::string>(&kind_)) {
    CutByString(*sought, text, collector);
  } else {
    CutByPredicate(std::get<CharPredicate>(kind_), text, collector);
  }
  collector.AddGap(text.size());
  return absl::OkStatus();
}

}  // namespace lowmem
