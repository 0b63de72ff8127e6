// SPDX-License-Identifier: Apache-2.0
#include "engine/text/byte_bpe_tokenizer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/text/byte_alphabet.h"
#include "engine/text/id_output.h"
#include "engine/text/utf8_text.h"
#include "storage/base/limits.h"
#include "storage/base/memory_account.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Remembers where in the output the ids of recent short pieces are: most words
// of a text come again. A slot is overwritten by the next of its hash.
// Lifetime: for one output.
class RecentPieces {
 public:
  // For a text of so many bytes. It does without where the account has no room.
  RecentPieces(size_t text_bytes, MemoryAccount* account) {
    if (text_bytes < kMinTextBytes) return;
    const size_t num_slots =
        std::bit_ceil(std::min(text_bytes / kTextBytesPerSlot, kMaxSlots));
    absl::StatusOr<MemoryCharge> charge =
        MemoryAccount::ReserveIn(account, num_slots * sizeof(Slot));
    if (!charge.ok()) return;
    charge_ = *std::move(charge);
    slots_.resize(num_slots);
  }

  // Where the ids of `piece` are; nullopt when that is not known.
  std::optional<TextRange> Find(absl::string_view piece) {
    current_ = nullptr;
    if (slots_.empty() || piece.size() > kMaxPieceBytes) return std::nullopt;
    current_ = &slots_[absl::HashOf(piece) & (slots_.size() - 1)];
    if (piece != absl::string_view(current_->text, current_->num_bytes)) {
      return std::nullopt;
    }
    return TextRange{current_->begin, current_->begin + current_->num_ids};
  }
  // Tells where the ids went of the piece that was sought last.
  void Remember(absl::string_view piece, TextRange ids) {
    if (current_ == nullptr) return;
    current_->begin = static_cast<uint32_t>(ids.begin);
    current_->num_ids = static_cast<uint8_t>(ids.end - ids.begin);
    current_->num_bytes = static_cast<uint8_t>(piece.size());
    piece.copy(current_->text, piece.size());
  }

 private:
  static constexpr size_t kMinTextBytes = 64;
  static constexpr size_t kTextBytesPerSlot = 4;
  static constexpr size_t kMaxSlots = 4096;
  static constexpr size_t kMaxPieceBytes = 26;
  // An id stands for a byte at least, of what a normalizer (four times) and a
  // pre-tokenizer (twice) may make of the text.
  static_assert(limits::kPromptBytes <= UINT32_MAX / 16);
  struct Slot {
    uint32_t begin;
    uint8_t num_ids;
    uint8_t num_bytes;  // 0: free; no piece is empty
    char text[kMaxPieceBytes];
  };
  static_assert(sizeof(Slot) == 32);
  MemoryCharge charge_;
  std::vector<Slot> slots_;
  Slot* current_ = nullptr;
};

// One text on its way through the stages.
class Encoding {
 public:
  Encoding(const ByteBpeTokenizer::Stages& stages,
           const Tokenizer::EncodeOptions& options, size_t text_bytes,
           IdOutput& ids)
      : stages_(stages),
        parse_special_(options.parse_special),
        cancel_(options.cancel),
        ids_(ids),
        recent_(text_bytes, options.account),
        encoder_(stages.model, options.cancel, options.account),
        scratch_(options.cancel, options.account) {}

  absl::Status Run(absl::string_view text) {
    return ForEachPart(text, AddedTokens::Pass::kRaw,
                       [this](absl::string_view raw) -> absl::Status {
                         if (stages_.normalizer.is_identity())
                           return AppendNormalized(raw);
                         LOWMEM_ASSIGN_OR_RETURN(
                             const NormalizedText normalized,
                             stages_.normalizer.Normalize(raw, scratch_));
                         return AppendNormalized(normalized.text);
                       });
  }

 private:
  absl::Status ForEachPart(
      absl::string_view text, AddedTokens::Pass pass,
      absl::FunctionRef<absl::Status(absl::string_view)> on_text) {
    return stages_.added_tokens.Split(
        text, pass, parse_special_, scratch_,
        [&](const TokenOrText& part) -> absl::Status {
          LOWMEM_RETURN_IF_ERROR(CheckCancel());
          if (part.id.has_value()) return ids_.Append({&*part.id, 1});
          return on_text(
              text.substr(part.range.begin, part.range.end - part.range.begin));
        });
  }

  absl::Status AppendNormalized(absl::string_view text) {
    return ForEachPart(text, AddedTokens::Pass::kNormalized,
                       [this](absl::string_view part) -> absl::Status {
                         LOWMEM_RETURN_IF_ERROR(stages_.pre_tokenizer.Cut(
                             part, scratch_, [this](absl::string_view piece) {
                               return AppendPiece(piece);
                             }));
                         return CheckCancel();
                       });
  }

  absl::Status AppendPiece(absl::string_view piece) {
    if (const std::optional<TextRange> known = recent_.Find(piece)) {
      return ids_.AppendAgain(known->begin, known->end - known->begin);
    }
    const size_t begin = ids_.size();
    LOWMEM_RETURN_IF_ERROR(encoder_.Append(piece, ids_));
    LOWMEM_RETURN_IF_ERROR(CheckCancel());
    recent_.Remember(piece, {begin, ids_.size()});
    return absl::OkStatus();
  }

  absl::Status CheckCancel() const {
    return cancel_ != nullptr && cancel_->load()
               ? absl::CancelledError("interrupted")
               : absl::OkStatus();
  }

  const ByteBpeTokenizer::Stages& stages_;
  const bool parse_special_;
  const std::atomic<bool>* const cancel_;
  IdOutput& ids_;
  RecentPieces recent_;
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
  IdOutput ids(options.max_ids, options.account);
  const PostProcessor& around = stages_.post_processor;
  ids.SetAside(text.size() + around.prefix.size() + around.suffix.size());
  if (options.add_special) LOWMEM_RETURN_IF_ERROR(ids.Append(around.prefix));
  LOWMEM_RETURN_IF_ERROR(
      Encoding(stages_, options, text.size(), ids).Run(text));
  if (options.add_special) LOWMEM_RETURN_IF_ERROR(ids.Append(around.suffix));
  return std::move(ids).Take();
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
