// SPDX-License-Identifier: Apache-2.0
#include "engine/text/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/text/json_settings.h"
#include "engine/text/regex_syntax.h"
#include "engine/text/unicode_form.h"
#include "engine/text/utf8_text.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

// Source: GPT-2's encoder.py; \s as in regex_syntax.h.
constexpr absl::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+)"
    R"(| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space}))"
    R"(|\p{White_Space}+)";

absl::StatusOr<SplitBehavior> ParseBehavior(const JsonValue& spec,
                                            const char* fallback) {
  LOWMEM_ASSIGN_OR_RETURN(
      const std::string name,
      GetString(spec, "behavior",
                fallback == nullptr ? std::optional<std::string>()
                                    : std::optional<std::string>(fallback)));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return absl::DataLossError(absl::StrCat(
      "\"behavior\" is \"", Printable(name), "\"; expected Removed, ",
      "Isolated, MergedWithPrevious, MergedWithNext or Contiguous"));
}

// Appends the non-empty ranges that `behavior` makes of the parts, moved by
// `base`.
void Combine(const std::vector<MatchedPart>& parts, SplitBehavior behavior,
             size_t base, std::vector<TextRange>& pieces) {
  const size_t first = pieces.size();
  const auto begin_piece = [&](TextRange range) {
    pieces.push_back({base + range.begin, base + range.end});
  };
  // Whether the previous part was a match, in the order of walking. Each rule
  // is the reference's, run of matches and empty matches included.
  bool after_match = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const MatchedPart& part : parts) {
        if (!part.is_match) begin_piece(part.range);
      }
      break;
    case SplitBehavior::kIsolated:
      for (const MatchedPart& part : parts) begin_piece(part.range);
      break;
    case SplitBehavior::kContiguous:
      for (const MatchedPart& part : parts) {
        if (part.is_match == after_match && pieces.size() > first) {
          pieces.back().end = base + part.range.end;
        } else {
          begin_piece(part.range);
        }
        after_match = part.is_match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const MatchedPart& part : parts) {
        if (part.is_match && !after_match && pieces.size() > first) {
          pieces.back().end = base + part.range.end;
        } else {
          begin_piece(part.range);
        }
        after_match = part.is_match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->is_match && !after_match && pieces.size() > first) {
          pieces.back().begin = base + part->range.begin;
        } else {
          begin_piece(part->range);
        }
        after_match = part->is_match;
      }
      std::reverse(pieces.begin() + first, pieces.end());
      break;
  }
  pieces.erase(
      std::remove_if(pieces.begin() + first, pieces.end(),
                     [](const TextRange& piece) { return piece.empty(); }),
      pieces.end());
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const JsonValue& spec) {
  PreTokenizer pre_tokenizer;
  const absl::Status status = pre_tokenizer.AddSteps(spec);
  if (!status.ok()) return InContext(status, "pre_tokenizer");
  if (!pre_tokenizer.has_byte_level_) {
    return absl::UnimplementedError(
        "pre_tokenizer: only byte-level vocabularies are supported; expected a "
        "ByteLevel step");
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::AddSteps(const JsonValue& spec) {
  if (spec.is_null()) return absl::OkStatus();
  LOWMEM_ASSIGN_OR_RETURN(const absl::string_view type, TypeOf(spec));
  if (type == "Sequence") {
    const JsonValue* list = spec.Find("pretokenizers");
    if (list == nullptr || !list->is_array()) {
      return absl::DataLossError(
          "\"pretokenizers\" is missing; expected a list");
    }
    for (const JsonValue& step : list->items()) {
      LOWMEM_RETURN_IF_ERROR(AddSteps(step));
    }
    return absl::OkStatus();
  }
  if (has_byte_level_) {
    return absl::UnimplementedError(absl::StrCat(
        "\"", Printable(type), "\" behind ByteLevel is not supported"));
  }
  if (type == "ByteLevel") return AddByteLevel(spec);
  LOWMEM_ASSIGN_OR_RETURN(Split split, MakeSplit(type, spec));
  steps_.emplace_back(std::move(split));
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddByteLevel(const JsonValue& spec) {
  LOWMEM_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          GetBool(spec, "add_prefix_space"));
  LOWMEM_ASSIGN_OR_RETURN(const bool use_regex,
                          GetBool(spec, "use_regex", true));
  if (add_prefix_space) steps_.emplace_back(PrefixSpace{});
  if (use_regex) {
    LOWMEM_ASSIGN_OR_RETURN(TextPattern pattern,
                            TextPattern::FromRegex(kGpt2Pattern));
    steps_.emplace_back(
        Split{std::move(pattern), SplitBehavior::kIsolated, /*invert=*/false});
  }
  has_byte_level_ = true;
  return absl::OkStatus();
}

absl::StatusOr<PreTokenizer::Split> PreTokenizer::MakeSplit(
    absl::string_view type, const JsonValue& spec) {
  if (type == "Split") {
    const JsonValue* pattern_spec = spec.Find("pattern");
    if (pattern_spec == nullptr) {
      return absl::DataLossError("\"pattern\" is missing");
    }
    LOWMEM_ASSIGN_OR_RETURN(TextPattern pattern,
                            TextPattern::FromJson(*pattern_spec));
    LOWMEM_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                            ParseBehavior(spec, nullptr));
    LOWMEM_ASSIGN_OR_RETURN(const bool invert, GetBool(spec, "invert", false));
    return Split{std::move(pattern), behavior, invert};
  }
  if (type == "Digits") {
    LOWMEM_ASSIGN_OR_RETURN(const bool individual,
                            GetBool(spec, "individual_digits"));
    return Split{
        TextPattern::FromPredicate(IsNumeric),
        individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
        false};
  }
  if (type == "Punctuation") {
    LOWMEM_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                            ParseBehavior(spec, "Isolated"));
    return Split{TextPattern::FromPredicate(IsPunctuation), behavior, false};
  }
  if (type == "WhitespaceSplit") {
    return Split{TextPattern::FromPredicate(IsWhiteSpace),
                 SplitBehavior::kRemoved, false};
  }
  if (type == "Whitespace") {
    LOWMEM_ASSIGN_OR_RETURN(
        TextPattern words,
        TextPattern::FromRegex(absl::StrCat(
            "[", kWordClass, "]+|[^", kWordClass, R"(\p{White_Space}]+)")));
    return Split{std::move(words), SplitBehavior::kRemoved, /*invert=*/true};
  }
  if (type == "CharDelimiterSplit") {
    LOWMEM_ASSIGN_OR_RETURN(std::string delimiter,
                            GetString(spec, "delimiter"));
    return Split{TextPattern::FromString(std::move(delimiter)),
                 SplitBehavior::kRemoved, false};
  }
  return absl::UnimplementedError(
      absl::StrCat("\"", Printable(type), "\" is not supported"));
}

absl::Status PreTokenizer::Cut(CutText& cut, RegexScratch& scratch) const {
  for (const Step& step : steps_) {
    if (const Split* split = std::get_if<Split>(&step)) {
      LOWMEM_RETURN_IF_ERROR(ApplySplit(*split, cut, scratch));
    } else {
      ApplyPrefixSpace(cut);
    }
  }
  return absl::OkStatus();
}

absl::Status PreTokenizer::ApplySplit(const Split& split, CutText& cut,
                                      RegexScratch& scratch) {
  std::vector<TextRange> pieces;
  std::vector<MatchedPart> parts;
  for (const TextRange& piece : cut.pieces) {
    parts.clear();
    LOWMEM_RETURN_IF_ERROR(
        split.pattern.Cut(absl::string_view(cut.text).substr(
                              piece.begin, piece.end - piece.begin),
                          scratch, parts));
    if (split.invert) {
      for (MatchedPart& part : parts) part.is_match = !part.is_match;
    }
    Combine(parts, split.behavior, piece.begin, pieces);
  }
  cut.pieces = std::move(pieces);
  return absl::OkStatus();
}

void PreTokenizer::ApplyPrefixSpace(CutText& cut) {
  CutText spaced;
  spaced.text.reserve(cut.text.size() + cut.pieces.size());
  spaced.pieces.reserve(cut.pieces.size());
  for (const TextRange& piece : cut.pieces) {
    const size_t begin = spaced.text.size();
    if (cut.text[piece.begin] != ' ') spaced.text.push_back(' ');
    spaced.text.append(cut.text, piece.begin, piece.end - piece.begin);
    spaced.pieces.push_back({begin, spaced.text.size()});
  }
  cut = std::move(spaced);
}

}  // namespace lowmem
