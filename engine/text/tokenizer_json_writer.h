// SPDX-License-Identifier: Apache-2.0
// Writes the tokenizer of a GGUF file as the two files that Hugging Face
// libraries load: tokenizer.json and tokenizer_config.json. Ids, special tokens
// and the steps are those that LoadTokenizerFromGguf uses.

#ifndef LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_WRITER_H_
#define LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_WRITER_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/gguf_metadata.h"

namespace lowmem {

// Takes the text piece by piece; a status other than OK ends the writing with
// it.
using TextSink = absl::FunctionRef<absl::Status(absl::string_view text)>;

// Filler rows of the embedding (token type "unused") are left out, as the
// published vocabularies leave them out. Memory: about 64 KiB and the added
// tokens, however large the vocabulary is. Errors: those of
// LoadTokenizerFromGguf, without the path; what `sink` returns.
absl::Status WriteTokenizerJson(const GgufMetadata& metadata, TextSink sink);

// A PreTrainedTokenizerFast with the tokens that the metadata name, the added
// tokens, the chat template, and the context length as model_max_length, each
// where the file has it. add_bos_token is not written: what goes around a text
// is stated in tokenizer.json. Errors: as above.
absl::Status WriteTokenizerConfigJson(const GgufMetadata& metadata,
                                      TextSink sink);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_WRITER_H_
