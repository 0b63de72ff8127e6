// SPDX-License-Identifier: Apache-2.0
// Added tokens as tokenizer.json and tokenizer_config.json list them.

#ifndef LOWMEM_ENGINE_TEXT_ADDED_TOKEN_JSON_H_
#define LOWMEM_ENGINE_TEXT_ADDED_TOKEN_JSON_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/text/added_tokens.h"
#include "engine/text/vocabulary.h"
#include "storage/base/json.h"

namespace lowmem {

// Content and flags; the id is the caller's to fill in.
// Errors: kDataLoss naming the member.
absl::StatusOr<AddedToken> ParseAddedToken(const JsonValue& entry);

// Adds the tokens, whose ids are those that the file states, and proves these:
// the reference takes no notice of them and gives a token the id of the piece
// with the same text, or the next free one, so a file that states another would
// mean one thing here and another there. Tokens without content are passed
// over. Errors: kDataLoss.
absl::Status AddTokens(std::vector<AddedToken> stated,
                       const Vocabulary& vocabulary, AddedTokens& added);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_ADDED_TOKEN_JSON_H_
