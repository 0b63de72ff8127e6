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

#include <cstddef>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// Takes pieces, in order and never empty; one lives as long as the call.
using PieceSink = absl::FunctionRef<absl::Status(absl::string_view piece)>;

// Thread safety: const methods are thread-safe.
class PreTokenizer {
 public:
  // `spec` is the value of "pre_tokenizer".
  // Errors: kUnimplemented naming a kind that is not supported; kDataLoss.
  static absl::StatusOr<PreTokenizer> FromJson(const JsonValue& spec);

  // Cuts `text` and hands out the pieces one by one, without keeping them.
  // Memory: a copy of the text or a piece where a step puts a space before it.
  // Errors: kUnimplemented when a pattern is too expensive for the text;
  // kResourceExhausted by the scratch's account; what `on_piece` returns ends
  // it.
  absl::Status Cut(absl::string_view text, RegexScratch& scratch,
                   PieceSink on_piece) const;

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
  absl::Status AddStep(Step step);
  // What the steps from `step_idx` on make of `text`, which is not empty.
  absl::Status CutFrom(size_t step_idx, absl::string_view text,
                       RegexScratch& scratch, PieceSink on_piece) const;

  std::vector<Step> steps_;
  bool has_byte_level_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_PRE_TOKENIZER_H_
