// SPDX-License-Identifier: Apache-2.0
#include "engine/text/gguf_end_tokens.h"

#include <algorithm>
#include <iterator>

namespace lowmem {
namespace {

// Names by which published models end a turn, a message or a text.
constexpr absl::string_view kEndNames[] = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|eom_id|>",
    "<|end|>",
    "</s>",
    "<|return|>",
    "<|call|>",
    "<|eot|>",
    "<|eom|>",
    "<EOT>",
    "<|END_OF_TURN_TOKEN|>",
    "<end_of_turn>",
};

bool IsEndName(absl::string_view text) {
  return std::find(std::begin(kEndNames), std::end(kEndNames), text) !=
         std::end(kEndNames);
}

bool Has(absl::Span<const GgufControlToken> tokens, absl::string_view text) {
  return std::any_of(
      tokens.begin(), tokens.end(),
      [&](const GgufControlToken& token) { return token.text == text; });
}

}  // namespace

void AppendWellKnownEndTokens(absl::Span<const GgufControlToken> tokens,
                              std::vector<int32_t>& eos_ids) {
  // In the harmony format <|end|> ends a message, after which the model goes
  // on; its turn ends with <|return|> or <|call|>.
  const bool is_harmony = Has(tokens, "<|return|>") && Has(tokens, "<|call|>");
  for (const GgufControlToken& token : tokens) {
    if (!IsEndName(token.text)) continue;
    if (is_harmony && token.text == "<|end|>") continue;
    if (std::find(eos_ids.begin(), eos_ids.end(), token.id) == eos_ids.end()) {
      eos_ids.push_back(token.id);
    }
  }
}

}  // namespace lowmem
