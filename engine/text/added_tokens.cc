// SPDX-License-Identifier: Apache-2.0
#include "engine/text/added_tokens.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/text/regex_syntax.h"
#include "engine/text/utf8_text.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

// Bounds the work at one place of a text; published tokens stay below 100.
constexpr size_t kMaxContentBytes = 4096;

size_t BeginOfSpaceBefore(absl::string_view text, size_t limit, size_t end) {
  while (end > limit) {
    const char32_t c = CodePointBefore(text, end);
    if (!IsWhiteSpace(c)) break;
    std::string encoded;
    AppendUtf8(c, encoded);
    end -= encoded.size();
  }
  return end;
}

size_t EndOfSpaceBehind(absl::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Step step = DecodeUtf8(text.substr(begin));
    if (!IsWhiteSpace(step.code_point)) break;
    begin += step.num_bytes;
  }
  return begin;
}

}  // namespace

absl::Status AddedTokens::Add(AddedToken token) {
  if (token.content.size() > kMaxContentBytes) {
    return absl::DataLossError(
        absl::StrCat("added token \"", Printable(token.content),
                     "\" is too long; expected at ", "most ", kMaxContentBytes,
                     " bytes, got ", token.content.size()));
  }
  const auto known = idx_by_content_.find(token.content);
  if (known != idx_by_content_.end()) {
    AddedToken& old = tokens_[known->second];
    if (old.id != token.id) {
      return absl::DataLossError(
          absl::StrCat("added token \"", Printable(token.content),
                       "\" has two ids, ", old.id, " and ", token.id));
    }
    old = std::move(token);
    return absl::OkStatus();
  }
  if (tokens_.size() >= limits::kNumAddedTokens) {
    return absl::DataLossError(absl::StrCat(
        "too many added tokens; expected at most ", limits::kNumAddedTokens));
  }
  const uint32_t idx = static_cast<uint32_t>(tokens_.size());
  const auto [same_id, is_new] = idx_by_id_.emplace(token.id, idx);
  if (!is_new) {
    return absl::DataLossError(
        absl::StrCat("id ", token.id, " stands for two added tokens: \"",
                     Printable(tokens_[same_id->second].content), "\" and \"",
                     Printable(token.content), "\""));
  }
  idx_by_content_.emplace(token.content, idx);
  tokens_.push_back(std::move(token));
  return absl::OkStatus();
}

absl::Status AddedTokens::Finish(const Normalizer& normalizer) {
  RegexScratch scratch;
  bool any_single_word = false;
  // Special tokens first: of two that normalize to the same text the first
  // counts.
  for (const bool special : {true, false}) {
    for (uint32_t idx = 0; idx < tokens_.size(); ++idx) {
      const AddedToken& token = tokens_[idx];
      if (token.special != special || token.content.empty()) continue;
      any_single_word |= token.single_word;
      if (!token.normalized) {
        raw_.entries.push_back({token.content, idx});
        continue;
      }
      LOWMEM_ASSIGN_OR_RETURN(NormalizedText normalized,
                              normalizer.Normalize(token.content, scratch));
      std::string& text = normalized.text;
      if (text.empty()) {
        return absl::UnimplementedError(
            absl::StrCat("\"", Printable(token.content),
                         "\": nothing is left of it once it is ",
                         "normalized; such a token is not supported"));
      }
      if (text != token.content) normalized_content_by_id_[token.id] = text;
      normalized_.entries.push_back({std::move(text), idx});
    }
  }
  raw_.Build();
  normalized_.Build();
  if (any_single_word) {
    LOWMEM_ASSIGN_OR_RETURN(
        Regex word_char, Regex::Compile(absl::StrCat("\\A[", kWordClass, "]")));
    word_char_ = std::move(word_char);
  }
  return absl::OkStatus();
}

const AddedToken* AddedTokens::Find(absl::string_view content) const {
  const auto found = idx_by_content_.find(content);
  return found == idx_by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::FindById(int32_t id) const {
  const auto found = idx_by_id_.find(id);
  return found == idx_by_id_.end() ? nullptr : &tokens_[found->second];
}

absl::string_view AddedTokens::DecodedText(const AddedToken& token) const {
  const auto found = normalized_content_by_id_.find(token.id);
  return found == normalized_content_by_id_.end() ? token.content
                                                  : found->second;
}

void AddedTokens::Matcher::Build() {
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const Entry& a, const Entry& b) { return a.text < b.text; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) {
                              return a.text == b.text;
                            }),
                entries.end());
  for (const Entry& entry : entries) {
    ++first[static_cast<uint8_t>(entry.text[0]) + 1];
  }
  for (size_t byte = 0; byte < 256; ++byte) first[byte + 1] += first[byte];
}

const AddedTokens::Matcher::Entry* AddedTokens::Matcher::FindPrefix(
    absl::string_view text) const {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  auto begin = entries.begin() + first[lead];
  auto end = entries.begin() + first[lead + 1];
  const Entry* longest = nullptr;
  // Invariant: [begin, end) are the entries that begin with text[0, length).
  for (size_t length = 1; begin != end; ++length) {
    if (begin->text.size() == length) {
      longest = &*begin++;  // the shortest of the range sorts first
    }
    if (length == text.size()) break;
    const uint8_t next = static_cast<uint8_t>(text[length]);
    begin = std::partition_point(begin, end, [&](const Entry& entry) {
      return static_cast<uint8_t>(entry.text[length]) < next;
    });
    end = std::partition_point(begin, end, [&](const Entry& entry) {
      return static_cast<uint8_t>(entry.text[length]) == next;
    });
  }
  return longest;
}

absl::StatusOr<bool> AddedTokens::StandsAlone(absl::string_view text,
                                              TextRange match,
                                              RegexScratch& scratch) const {
  if (match.begin > 0) {
    std::string before;
    AppendUtf8(CodePointBefore(text, match.begin), before);
    LOWMEM_ASSIGN_OR_RETURN(const auto word,
                            word_char_->Find(before, 0, scratch));
    if (word.has_value()) return false;
  }
  if (match.end < text.size()) {
    const size_t num_bytes = DecodeUtf8(text.substr(match.end)).num_bytes;
    LOWMEM_ASSIGN_OR_RETURN(
        const auto word,
        word_char_->Find(text.substr(match.end, num_bytes), 0, scratch));
    if (word.has_value()) return false;
  }
  return true;
}

absl::Status AddedTokens::Split(absl::string_view text, Pass pass,
                                bool parse_special, RegexScratch& scratch,
                                Sink on_part) const {
  const Matcher& matcher = pass == Pass::kRaw ? raw_ : normalized_;
  size_t done = 0;  // everything before was handed out
  size_t space_end = 0;
  for (size_t pos = 0; pos < text.size();) {
    if (scratch.is_cancelled()) {
      return absl::CancelledError("interrupted");
    }
    const Matcher::Entry* found = matcher.entries.empty()
                                      ? nullptr
                                      : matcher.FindPrefix(text.substr(pos));
    if (found == nullptr) {
      if (matcher.entries.empty()) break;
      ++pos;
      continue;
    }
    const AddedToken& token = tokens_[found->token_idx];
    TextRange match{pos, pos + found->text.size()};
    pos = match.end;
    if (token.special && !parse_special) continue;
    if (token.single_word) {
      LOWMEM_ASSIGN_OR_RETURN(const bool alone,
                              StandsAlone(text, match, scratch));
      if (!alone) continue;
    }
    if (token.lstrip) {
      match.begin = std::max(BeginOfSpaceBefore(text, done, match.begin), done);
    }
    if (token.rstrip) {
      // Within a run of white space whose end is known there is nothing to
      // seek.
      if (match.end >= space_end) space_end = EndOfSpaceBehind(text, match.end);
      match.end = space_end;
    }
    // All of it may be white space that the token before has taken.
    if (match.begin >= match.end) continue;
    if (done < match.begin) {
      LOWMEM_RETURN_IF_ERROR(on_part({{done, match.begin}, std::nullopt}));
    }
    LOWMEM_RETURN_IF_ERROR(on_part({match, token.id}));
    // As the reference does it: the search goes on behind the token itself, so
    // a token of white space is found in what rstrip took, and ends it.
    done = match.end;
  }
  if (done == text.size()) return absl::OkStatus();
  return on_part({{done, text.size()}, std::nullopt});
}

}  // namespace lowmem
