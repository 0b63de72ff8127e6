// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, exactly as the published tokenizer does it.
// Reference: Hugging Face tokenizers (tokenizer.json is the specification).

#ifndef LOWMEM_ENGINE_TEXT_TOKENIZER_H_
#define LOWMEM_ENGINE_TEXT_TOKENIZER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "storage/base/memory_account.h"
#include "storage/checkpoint.h"

namespace lowmem {

// Thread safety: const methods are thread-safe.
// Memory: about the size of the vocabulary's text plus 11 bytes a token and 18
// a merge.
class Tokenizer {
 public:
  struct EncodeOptions {
    // Put what the tokenizer's post-processor puts around a text (BOS, EOS).
    bool add_special = true;
    // Recognise special tokens spelt out in the text; false for text of users.
    // Added tokens that are not special are recognised all the same.
    bool parse_special = true;
    // Encode ends soon with kCancelled once this is true; nullptr for never.
    const std::atomic<bool>* cancel = nullptr;
    // Encode ends with kOutOfRange as soon as it knows that there are more ids,
    // those around the text included.
    size_t max_ids = std::numeric_limits<size_t>::max();
    // What Encode takes, the ids included, is charged here before it is taken,
    // and given back when it ends: the ids are the caller's then. nullptr: no
    // account.
    MemoryAccount* account = nullptr;
  };

  virtual ~Tokenizer() = default;

  // Errors: kInvalidArgument for text that is no valid UTF-8 or longer than
  // limits::kPromptBytes; kUnimplemented for a pattern that is too expensive
  // for the text; kCancelled; kOutOfRange by max_ids, kResourceExhausted by the
  // account.
  // Memory: four bytes an id, 20 for each byte of the longest piece that is
  // merged, and up to 128 KiB; with a normalizer the text twice.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options) const = 0;

  // The bytes that the token stands for, in the middle of a text; not UTF-8 by
  // itself. Empty for an id without a token.
  // REQUIRES: 0 <= id.
  virtual std::string TokenBytes(int32_t id) const = 0;

  // All ids as text: bytes joined, each maximal invalid UTF-8 part as one
  // U+FFFD. An id without a token gives nothing. Errors: kInvalidArgument for
  // an id outside [0, vocab_size()).
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids,
                                     bool skip_special) const;

  // One more than the largest id, added tokens included.
  virtual uint32_t vocab_size() const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  // The id of a token by its text (an added token's content, or a piece).
  virtual std::optional<int32_t> FindToken(absl::string_view content) const = 0;
  // Beginning-of-text token that the post-processor adds or the model's files
  // name; nullopt where there is none.
  virtual std::optional<int32_t> bos_id() const = 0;
  // Ids that end a generation as far as the tokenizer's own files say:
  // eos_token of tokenizer_config.json; for GGUF its key and the well-known
  // end-of-turn and end-of-text tokens that the vocabulary has as control
  // tokens. No duplicates.
  virtual const std::vector<int32_t>& eos_ids() const = 0;
};

// Text that grows token by token and is handed out only in whole characters.
// Thread safety: one thread at a time. Lifetime: the tokenizer must outlive it.
class StreamingDetokenizer {
 public:
  StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // What can be printed after this token: valid UTF-8, possibly empty. No byte
  // is held back that cannot belong to an unfinished character. Errors:
  // kInvalidArgument for an id outside the vocabulary.
  absl::StatusOr<std::string> Add(int32_t id);
  // The rest: an unfinished character as U+FFFD.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  const bool skip_special_;
  std::string pending_;
};

// Reads tokenizer.json (and tokenizer_config.json) from `folder`.
// Errors: kNotFound when tokenizer.json is absent; kDataLoss for damage;
// kUnimplemented for a kind of model or step that is not supported, named.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromFolder(
    const std::string& folder);

// Builds the tokenizer from GGUF metadata.
// Errors: kDataLoss; kUnimplemented for another tokenizer.ggml.model or an
// unknown tokenizer.ggml.pre.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFromGguf(
    const GgufMetadata& metadata, const std::string& path_for_messages);

// Whichever of the two the checkpoint has.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(
    const Checkpoint& checkpoint);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TOKENIZER_H_
