// SPDX-License-Identifier: Apache-2.0
#include "engine/text/byte_bpe_tokenizer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/utf8_text.h"
#include "storage/base/limits.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Remembers where in the output the ids of recent pieces are: most words of a
// text come again. Nothing is copied; a slot is overwritten by the next of its
// hash. Lifetime: for one text and one output.
class RecentPieces {
 public:
  explicit RecentPieces(size_t num_pieces)
      : slots_(num_pieces < kMinPieces
                   ? 0
                   : std::bit_ceil(std::min(num_pieces, kMaxSlots))) {}

  // Appends the ids of `piece` of `text` once more, or says that they are
  // unknown.
  bool AppendKnown(absl::string_view text, TextRange piece,
                   std::vector<int32_t>& ids) {
    if (slots_.empty()) return false;
    const absl::string_view bytes =
        text.substr(piece.begin, piece.end - piece.begin);
    current_ = &slots_[absl::HashOf(bytes) & (slots_.size() - 1)];
    if (text.substr(current_->text.begin,
                    current_->text.end - current_->text.begin) != bytes) {
      return false;
    }
    const size_t old_size = ids.size();
    ids.resize(old_size + (current_->ids.end - current_->ids.begin));
    std::copy(ids.begin() + current_->ids.begin,
              ids.begin() + current_->ids.end, ids.begin() + old_size);
    return true;
  }
  // Tells where the ids went of the piece that was asked for last.
  void Remember(TextRange piece, TextRange ids) {
    if (!slots_.empty()) *current_ = {piece, ids};
  }

 private:
  static constexpr size_t kMinPieces = 16;
  static constexpr size_t kMaxSlots = 4096;
  struct Slot {
    TextRange text;
    TextRange ids;
  };
  std::vector<Slot> slots_;
  Slot* current_ = nullptr;
};

// One text on its way through the stages.
class Encoding {
 public:
  Encoding(const ByteBpeTokenizer::Stages& stages, const Tokenizer::EncodeOptions& options,
           std::vector<int32_t>& ids)
      : stages_(stages),
        parse_special_(options.parse_special),
        cancel_(options.cancel),
        ids_(ids),
        encoder_(stages.model, options.cancel),
        scratch_(options.cancel) {}

  absl::Status Run(absl::string_view text) {
    std::vector<TokenOrText> parts;
    LOWMEM_RETURN_IF_ERROR(stages_.added_tokens.Split(
        text, AddedTokens::Pass::kRaw, parse_special_, scratch_, parts));
    for (const TokenOrText& part : parts) {
      LOWMEM_RETURN_IF_ERROR(CheckCancel());
      if (part.id.has_value()) {
        ids_.push_back(*part.id);
        continue;
      }
      const absl::string_view raw =
          text.substr(part.range.begin, part.range.end - part.range.begin);
      if (stages_.normalizer.is_identity()) {
        LOWMEM_RETURN_IF_ERROR(AppendNormalized(raw));
      } else {
        LOWMEM_ASSIGN_OR_RETURN(const std::string normalized,
                                stages_.normalizer.Normalize(raw, scratch_));
        LOWMEM_RETURN_IF_ERROR(AppendNormalized(normalized));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AppendNormalized(absl::string_view text) {
    std::vector<TokenOrText> parts;
    LOWMEM_RETURN_IF_ERROR(stages_.added_tokens.Split(
        text, AddedTokens::Pass::kNormalized, parse_special_, scratch_, parts));
    for (const TokenOrText& part : parts) {
      LOWMEM_RETURN_IF_ERROR(CheckCancel());
      if (part.id.has_value()) {
        ids_.push_back(*part.id);
      } else {
        LOWMEM_RETURN_IF_ERROR(AppendText(
            text.substr(part.range.begin, part.range.end - part.range.begin)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AppendText(absl::string_view text) {
    CutText cut{std::string(text), {{0, text.size()}}};
    LOWMEM_RETURN_IF_ERROR(stages_.pre_tokenizer.Cut(cut, scratch_));
    RecentPieces recent(cut.pieces.size());
    for (const TextRange& piece : cut.pieces) {
      if (recent.AppendKnown(cut.text, piece, ids_)) continue;
      const size_t begin = ids_.size();
      encoder_.Append(absl::string_view(cut.text).substr(
                          piece.begin, piece.end - piece.begin),
                      ids_);
      LOWMEM_RETURN_IF_ERROR(CheckCancel());
      recent.Remember(piece, {begin, ids_.size()});
    }
    return CheckCancel();
  }

  absl::Status CheckCancel() const {
    return cancel_ != nullptr && cancel_->load()
               ? absl::CancelledError("interrupted")
               : absl::OkStatus();
  }

  const ByteBpeTokenizer::Stages& stages_;
  const bool parse_special_;
  const std::atomic<bool>* const cancel_;
  std::vector<int32_t>& ids_;
  BpeEncoder encoder_;
  RegexScratch scratch_;
};

}  // namespace

ByteBpeTokenizer::ByteBpeTokenizer(Stages stages) : stages_(std::move(stages)) {
  vocab_size_ = stages_.model.vocabulary().id_limit();
  for (const AddedToken& token : stages_.added_tokens.tokens()) {
    vocab_size_ = std::max(vocab_size_, static_cast<uint32_t>(token.id) + 1);
  }
}

bool ByteBpeTokenizer::HasToken(int32_t id) const {
  return stages_.model.vocabulary().Has(id) ||
         stages_.added_tokens.FindById(id) != nullptr;
}

absl::StatusOr<std::vector<int32_t>> ByteBpeTokenizer::Encode(
    absl::string_view text, const EncodeOptions& options) const {
  if (text.size() > limits::kPromptBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is too long; expected at most ",
                     limits::kPromptBytes, " bytes, got ", text.size()));
  }
  if (const auto invalid = FindInvalidUtf8(text); invalid.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("text is not valid UTF-8 at byte ", *invalid));
  }
  std::vector<int32_t> ids;
  const PostProcessor& around = stages_.post_processor;
  if (options.add_special) {
    ids.insert(ids.end(), around.prefix.begin(), around.prefix.end());
  }
  LOWMEM_RETURN_IF_ERROR(
      Encoding(stages_, options, ids).Run(text));
  if (options.add_special) {
    ids.insert(ids.end(), around.suffix.begin(), around.suffix.end());
  }
  return ids;
}

std::string ByteBpeTokenizer::TokenBytes(int32_t id) const {
  std::string bytes;
  if (const AddedToken* token = stages_.added_tokens.FindById(id)) {
    AppendBytesOf(stages_.added_tokens.DecodedText(*token), bytes);
  } else if (stages_.model.vocabulary().Has(id)) {
    AppendBytesOf(stages_.model.vocabulary().Text(id), bytes);
  }
  return bytes;
}

bool ByteBpeTokenizer::IsSpecial(int32_t id) const {
  const AddedToken* token = stages_.added_tokens.FindById(id);
  return token != nullptr && token->special;
}

std::optional<int32_t> ByteBpeTokenizer::FindToken(
    absl::string_view content) const {
  if (const AddedToken* token = stages_.added_tokens.Find(content)) {
    return token->id;
  }
  return stages_.model.vocabulary().Find(content);
}

}  // namespace lowmem
