// SPDX-License-Identifier: Apache-2.0
// The tokenizer of byte-level BPE vocabularies (GPT-2, Llama 3, Qwen, SmolLM2,
// ...): added tokens out of the raw text, normalizer, added tokens out of that,
// pre-tokenizer, BPE on each piece, the post-processor's ids around.

#ifndef LOWMEM_ENGINE_TEXT_BYTE_BPE_TOKENIZER_H_
#define LOWMEM_ENGINE_TEXT_BYTE_BPE_TOKENIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/added_tokens.h"
#include "engine/text/bpe_model.h"
#include "engine/text/normalizer.h"
#include "engine/text/post_processor.h"
#include "engine/text/pre_tokenizer.h"
#include "engine/text/tokenizer.h"

namespace lowmem {

class ByteBpeTokenizer : public Tokenizer {
 public:
  struct Stages {
    BpeModel model;
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    PostProcessor post_processor;
    AddedTokens added_tokens;  // finished
    std::optional<int32_t> bos_id;
    std::vector<int32_t> eos_ids;
  };
  explicit ByteBpeTokenizer(Stages stages);

  const Stages& stages() const { return stages_; }
  bool HasToken(int32_t id) const;

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text, const EncodeOptions& options) const override;
  std::string TokenBytes(int32_t id) const override;
  uint32_t vocab_size() const override { return vocab_size_; }
  bool IsSpecial(int32_t id) const override;
  std::optional<int32_t> FindToken(absl::string_view content) const override;
  std::optional<int32_t> bos_id() const override { return stages_.bos_id; }
  const std::vector<int32_t>& eos_ids() const override {
    return stages_.eos_ids;
  }

 private:
  const Stages stages_;
  uint32_t vocab_size_ = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_BYTE_BPE_TOKENIZER_H_
