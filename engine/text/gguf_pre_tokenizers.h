// SPDX-License-Identifier: Apache-2.0
// A GGUF file names its pre-tokenizer (tokenizer.ggml.pre) instead of
// describing it. This table says what the tokenizer.json of the published model
// has there.
//
// Names of which that is not known for certain are left out on purpose: a wrong
// guess gives other ids without any sign of it.

#ifndef LOWMEM_ENGINE_TEXT_GGUF_PRE_TOKENIZERS_H_
#define LOWMEM_ENGINE_TEXT_GGUF_PRE_TOKENIZERS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/base/json.h"

namespace lowmem {

// Values of the members of tokenizer.json with the same names.
struct GgufPreTokenizer {
  JsonValue normalizer;
  JsonValue pre_tokenizer;
  bool ignore_merges = false;
  // Whether a text begins with BOS where the file does not say (add_bos_token).
  bool adds_bos = false;
};

// Errors: kUnimplemented naming `name`.
absl::StatusOr<GgufPreTokenizer> FindGgufPreTokenizer(absl::string_view name);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_GGUF_PRE_TOKENIZERS_H_
