// SPDX-License-Identifier: Apache-2.0
// Cuts a text into the pieces that are encoded one by one, as the
// "pre_tokenizer" of tokenizer.json states it: Split, ByteLevel, Digits,
// Punctuation, Whitespace, WhitespaceSplit, CharDelimiterSplit, and sequences
// of them.
//
// ByteLevel must be there and come last: what it does to the text (each byte
// becomes a character) is done by the model here, so no step behind it could
// see it.

#ifndef LOWMEM_ENGINE_TEXT_PRE_TOKENIZER_H_
#define LOWMEM_ENGINE_TEXT_PRE_TOKENIZER_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/text/regex.h"
#include "engine/text/text_pattern.h"
#include "storage/base/json.h"

namespace lowmem {

// What becomes of the parts that a pattern matches.
enum class SplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,
};

// A text and how it is cut so far. Pieces are in order and never empty.
struct CutText {
  std::string text;
  std::vector<TextRange> pieces;
};

// Thread safety: const methods are thread-safe.
class PreTokenizer {
 public:
  // `spec` is the value of "pre_tokenizer".
  // Errors: kUnimplemented naming a kind that is not supported; kDataLoss.
  static absl::StatusOr<PreTokenizer> FromJson(const JsonValue& spec);

  // Cuts the pieces of `cut` further.
  // Errors: kUnimplemented when a pattern is too expensive for the text.
  absl::Status Cut(CutText& cut, RegexScratch& scratch) const;

 private:
  struct Split {
    TextPattern pattern;
    SplitBehavior behavior;
    bool invert;
  };
  // Puts a space before each piece that does not begin with one.
  struct PrefixSpace {};
  using Step = std::variant<Split, PrefixSpace>;

  absl::Status AddSteps(const JsonValue& spec);
  absl::Status AddByteLevel(const JsonValue& spec);
  static absl::StatusOr<Split> MakeSplit(absl::string_view type,
                                         const JsonValue& spec);
  static absl::Status ApplySplit(const Split& split, CutText& cut,
                                 RegexScratch& scratch);
  static void ApplyPrefixSpace(CutText& cut);

  std::vector<Step> steps_;
  bool has_byte_level_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_PRE_TOKENIZER_H_
