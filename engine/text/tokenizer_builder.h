// SPDX-License-Identifier: Apache-2.0
// Where the readers of tokenizer.json and of GGUF metadata meet: the parts of a
// tokenizer as they state them, and the tokenizer made of these.

#ifndef LOWMEM_ENGINE_TEXT_TOKENIZER_BUILDER_H_
#define LOWMEM_ENGINE_TEXT_TOKENIZER_BUILDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/added_tokens.h"
#include "engine/text/bpe_model.h"
#include "engine/text/tokenizer.h"
#include "engine/text/vocabulary.h"
#include "storage/base/json.h"

namespace lowmem {

// The values are those of the members of tokenizer.json with the same name.
struct TokenizerParts {
  Vocabulary vocabulary;
  MergeTable merges;
  JsonValue model;  // without "vocab" and "merges"
  JsonValue normalizer;
  JsonValue pre_tokenizer;
  JsonValue post_processor;
  JsonValue decoder;
  AddedTokens added_tokens;
  // What the files name; the post-processor's first token goes before.
  std::optional<int32_t> bos_id;
  std::vector<int32_t> eos_ids;
};

// Adds the merge of two pieces of the vocabulary.
// Errors: kDataLoss when one of them or their join is no piece.
absl::Status AddMerge(const Vocabulary& vocabulary, absl::string_view left,
                      absl::string_view right, MergeTable& merges);
// The two pieces of a merge written "left right".
// Errors: kDataLoss unless there is exactly one space.
absl::StatusOr<std::pair<absl::string_view, absl::string_view>> SplitMergeLine(
    absl::string_view line);

// REQUIRES: vocabulary and merges are finished, added_tokens are not.
// Errors: kUnimplemented naming a kind of model or step that is not supported;
// kDataLoss.
absl::StatusOr<std::unique_ptr<Tokenizer>> BuildTokenizer(TokenizerParts parts);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TOKENIZER_BUILDER_H_
