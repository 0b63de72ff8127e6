// SPDX-License-Identifier: Apache-2.0
// tokenizer.json and tokenizer_config.json of a converted folder, made from the
// metadata of a GGUF file.

#ifndef LOWMEM_ENGINE_GENERATE_CONVERT_TOKENIZER_H_
#define LOWMEM_ENGINE_GENERATE_CONVERT_TOKENIZER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/text/gguf_vocabulary.h"
#include "storage/gguf_metadata.h"

namespace lowmem {

// Writes the tokenizer that the published model has, as far as ids go: every
// token with its id, the merges, and the steps that tokenizer.ggml.pre stands
// for. Filler rows of the embedding are no tokens and are left out. REQUIRES:
// LoadTokenizerFromGguf accepts `metadata`, which proves the text. Memory: one
// buffer of 64 KiB beside `vocabulary`. Errors: kUnavailable.
absl::Status WriteTokenizerJson(const GgufVocabulary& vocabulary,
                                const GgufMetadata& metadata,
                                const std::string& path);

// Writes class, special tokens, context length and chat templates.
// Errors: kUnavailable.
absl::Status WriteTokenizerConfigJson(const GgufVocabulary& vocabulary,
                                      const GgufMetadata& metadata,
                                      uint64_t max_context_tokens,
                                      const std::string& path);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_CONVERT_TOKENIZER_H_
