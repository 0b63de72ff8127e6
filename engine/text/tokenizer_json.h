// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json as a stream: the vocabulary and the merges go straight
// into their tables, the settings are kept as small trees, the rest is passed
// over.

#ifndef LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_H_
#define LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_H_

#include "absl/status/statusor.h"
#include "engine/text/tokenizer_builder.h"
#include "storage/base/json_sax.h"

namespace lowmem {

// The parts as the file states them; ids of bos and eos are not in it.
// Errors: kDataLoss, also for duplicate keys, pieces and ids, ids beyond
// limits::kVocabSize and merges of pieces that do not exist; kUnimplemented for
// a vocabulary that is none of BPE; what the stream returns.
absl::StatusOr<TokenizerParts> ReadTokenizerJson(ByteStream& stream);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_TOKENIZER_JSON_H_
