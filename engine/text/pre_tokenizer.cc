// SPDX-License-Identifier: Apache-2.0
#include "engine/text/pre_tokenizer.h"

#include <optional>
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

// A piece goes through all steps before the next is cut, each step one call
// deeper. Published tokenizers have up to five.
constexpr size_t kMaxSteps = 64;

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

// Makes pieces of the parts of a text, as the reference does, runs of matches
// and empty matches included. A piece is handed out as soon as no later part
// can belong to it.
class PieceJoiner {
 public:
  using Sink = absl::FunctionRef<absl::Status(TextRange piece)>;
  PieceJoiner(SplitBehavior behavior, Sink on_piece)
      : behavior_(behavior), on_piece_(on_piece) {}

  absl::Status Add(const MatchedPart& part) {
    const bool joins = open_.has_value() && JoinsOpenPiece(part.is_match);
    after_match_ = part.is_match;
    if (joins) {
      open_->end = part.range.end;
      // With MergedWithNext a match waits for one part only.
      if (behavior_ == SplitBehavior::kMergedWithNext) return Finish();
      return absl::OkStatus();
    }
    LOWMEM_RETURN_IF_ERROR(Finish());
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        return part.is_match ? absl::OkStatus() : HandOut(part.range);
      case SplitBehavior::kIsolated:
        return HandOut(part.range);
      case SplitBehavior::kMergedWithNext:
        if (!part.is_match) return HandOut(part.range);
        break;
      case SplitBehavior::kContiguous:
      case SplitBehavior::kMergedWithPrevious:
        break;
    }
    open_ = part.range;
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (!open_.has_value()) return absl::OkStatus();
    const TextRange piece = *open_;
    open_.reset();
    return HandOut(piece);
  }

 private:
  bool JoinsOpenPiece(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kContiguous:
        return is_match == after_match_;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !after_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match;  // the open piece is a match
      default:
        return false;
    }
  }
  absl::Status HandOut(TextRange piece) const {
    return piece.empty() ? absl::OkStatus() : on_piece_(piece);
  }

  const SplitBehavior behavior_;
  Sink on_piece_;
  std::optional<TextRange> open_;
  bool after_match_ = false;  // whether the part before was one
};

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
  return AddStep(std::move(split));
}

absl::Status PreTokenizer::AddStep(Step step) {
  if (steps_.size() == kMaxSteps) {
    return absl::UnimplementedError(
        absl::StrCat("more than ", kMaxSteps, " steps are not supported"));
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddByteLevel(const JsonValue& spec) {
  LOWMEM_ASSIGN_OR_RETURN(const bool add_prefix_space,
                          GetBool(spec, "add_prefix_space"));
  LOWMEM_ASSIGN_OR_RETURN(const bool use_regex,
                          GetBool(spec, "use_regex", true));
  if (add_prefix_space) LOWMEM_RETURN_IF_ERROR(AddStep(PrefixSpace{}));
  if (use_regex) {
    LOWMEM_ASSIGN_OR_RETURN(TextPattern pattern,
                            TextPattern::FromRegex(kGpt2Pattern));
    LOWMEM_RETURN_IF_ERROR(AddStep(
        Split{std::move(pattern), SplitBehavior::kIsolated, /*invert=*/false}));
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

absl::Status PreTokenizer::Cut(absl::string_view text, RegexScratch& scratch,
                               PieceSink on_piece) const {
  return text.empty() ? absl::OkStatus() : CutFrom(0, text, scratch, on_piece);
}

absl::Status PreTokenizer::CutFrom(size_t step_idx, absl::string_view text,
                                   RegexScratch& scratch,
                                   PieceSink on_piece) const {
  if (step_idx == steps_.size()) return on_piece(text);
  const Split* split = std::get_if<Split>(&steps_[step_idx]);
  if (split == nullptr) {
    if (text[0] == ' ') return CutFrom(step_idx + 1, text, scratch, on_piece);
    LOWMEM_ASSIGN_OR_RETURN(
        const MemoryCharge charge,
        MemoryAccount::ReserveIn(scratch.account(), text.size() + 1));
    return CutFrom(step_idx + 1, absl::StrCat(" ", text), scratch, on_piece);
  }
  const auto on_range = [&](TextRange piece) {
    return CutFrom(step_idx + 1,
                   text.substr(piece.begin, piece.end - piece.begin), scratch,
                   on_piece);
  };
  PieceJoiner joiner(split->behavior, on_range);
  LOWMEM_RETURN_IF_ERROR(
      split->pattern.Cut(text, scratch, [&](const MatchedPart& part) {
        return joiner.Add({part.range, part.is_match != split->invert});
      }));
  return joiner.Finish();
}

}  // namespace lowmem
