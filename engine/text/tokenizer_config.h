// SPDX-License-Identifier: Apache-2.0
// What tokenizer_config.json adds to tokenizer.json: the names of the tokens
// that begin and end a text, and tokens that were added later. Its other
// settings (add_bos_token, clean_up_tokenization_spaces, the class) do not
// change what the published tokenizer does and are not read.

#ifndef LOWMEM_ENGINE_TEXT_TOKENIZER_CONFIG_H_
#define LOWMEM_ENGINE_TEXT_TOKENIZER_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/added_tokens.h"
#include "storage/base/json_sax.h"

namespace lowmem {

struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  // By ascending id.
  std::vector<AddedToken> added_tokens;
};

// Errors: kDataLoss; what the stream returns.
absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(ByteStream& stream);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TOKENIZER_CONFIG_H_
