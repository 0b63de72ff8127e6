// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as they stand and never merged: special
// ones
// ("<|im_end|>") and others ("<think>").
// Source: Hugging Face tokenizers, added_vocabulary.rs.

#ifndef LOWMEM_ENGINE_TEXT_ADDED_TOKENS_H_
#define LOWMEM_ENGINE_TEXT_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/text/normalizer.h"
#include "engine/text/regex.h"

namespace lowmem {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  // Only where no word character stands next to it.
  bool single_word = false;
  // White space before and behind belongs to it.
  bool lstrip = false;
  bool rstrip = false;
  // Sought in the normalized text, by its own normalized form.
  bool normalized = false;
  bool special = false;
};

// A part of a text: an added token, or text between them (id empty).
struct TokenOrText {
  TextRange range;
  std::optional<int32_t> id;
};

// Thread safety: const methods are thread-safe.
// Memory: about 150 bytes a token.
class AddedTokens {
 public:
  // A token with the content of an earlier one replaces it.
  // Errors: kDataLoss for an id that another content has, or too many or too
  // long tokens.
  absl::Status Add(AddedToken token);
  // Prepares the search.
  // Errors: those of the normalizer; kUnimplemented for a token of which it
  // leaves nothing.
  absl::Status Finish(const Normalizer& normalizer);

  const AddedToken* Find(absl::string_view content) const;
  const AddedToken* FindById(int32_t id) const;
  // What a token is in decoded text: the form in which it is sought, so of one
  // that is normalized the normalized content. Usable after Finish.
  absl::string_view DecodedText(const AddedToken& token) const;
  // In the order they were added.
  const std::vector<AddedToken>& tokens() const { return tokens_; }

  enum class Pass {
    kRaw,         // tokens that are not normalized, in the text as it came
    kNormalized,  // the others, in the normalized text
  };
  // Cuts `text` into tokens and what lies between, handed out in order: the
  // leftmost match, of those that begin there the longest. A match that
  // single_word or `parse_special` rules out is text and is not looked into for
  // shorter ones. An empty text has no parts. Usable after Finish. Errors:
  // those of Regex::Find; what `on_part` returns ends it.
  using Sink = absl::FunctionRef<absl::Status(const TokenOrText& part)>;
  absl::Status Split(absl::string_view text, Pass pass, bool parse_special,
                     RegexScratch& scratch, Sink on_part) const;

 private:
  // The sought texts in byte order; a range of it narrows as a match gets
  // longer.
  struct Matcher {
    struct Entry {
      std::string text;
      uint32_t token_idx;
    };
    std::vector<Entry> entries;
    // Entries that begin with byte b are [first[b], first[b + 1]).
    std::array<uint32_t, 257> first{};

    void Build();
    // The longest entry that `text` begins with.
    const Entry* FindPrefix(absl::string_view text) const;
  };

  absl::StatusOr<bool> StandsAlone(absl::string_view text, TextRange match,
                                   RegexScratch& scratch) const;

  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<std::string, uint32_t> idx_by_content_;
  absl::flat_hash_map<int32_t, uint32_t> idx_by_id_;
  // Of the tokens that the normalizer changes.
  absl::flat_hash_map<int32_t, std::string> normalized_content_by_id_;
  Matcher raw_;
  Matcher normalized_;
  std::optional<Regex> word_char_;  // set when a token asks for single_word
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_ADDED_TOKENS_H_
