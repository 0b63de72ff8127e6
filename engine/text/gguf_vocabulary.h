// SPDX-License-Identifier: Apache-2.0
// What the tokenizer.ggml.* keys of a GGUF file say, put in the terms of
// tokenizer.json. Tokens and merges stay in the file; they are walked by
// whoever needs them. Source: ggml docs/gguf.md.

#ifndef LOWMEM_ENGINE_TEXT_GGUF_VOCABULARY_H_
#define LOWMEM_ENGINE_TEXT_GGUF_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/added_tokens.h"
#include "storage/base/json.h"
#include "storage/gguf_metadata.h"

namespace lowmem {

inline constexpr absl::string_view kGgufTokensKey = "tokenizer.ggml.tokens";
inline constexpr absl::string_view kGgufMergesKey = "tokenizer.ggml.merges";

// tokenizer.ggml.token_type; part of the format, never change.
enum class GgufTokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,  // a filler row of the embedding, no token
  kByte = 6,
};

// A token that a key names by its id.
struct GgufNamedToken {
  int32_t id = 0;
  std::string text;
};

struct GgufVocabulary {
  // Errors: kUnimplemented for another tokenizer.ggml.model or an unknown
  // tokenizer.ggml.pre; kDataLoss for counts that differ and ids out of range;
  // what reading the file returns.
  static absl::StatusOr<GgufVocabulary> Read(const GgufMetadata& metadata);

  // Calls `visit` for each token that is one (kUnused is not), by ascending id.
  absl::Status ForEachToken(
      const GgufMetadata& metadata,
      absl::FunctionRef<absl::Status(int32_t id, absl::string_view text)> visit)
      const;

  // By id.
  std::vector<GgufTokenType> types;
  // Control, unknown and user-defined tokens; all but the last are special.
  std::vector<AddedToken> added_tokens;
  std::optional<GgufNamedToken> bos;
  std::optional<GgufNamedToken> eos;
  std::optional<GgufNamedToken> unknown;
  std::optional<GgufNamedToken> padding;
  // What ends a generation: the keys' tokens, and of the control tokens those
  // whose names say that a turn or a text ends.
  std::vector<int32_t> eos_ids;

  // Values of the members of tokenizer.json with the same names; the model
  // without "vocab" and "merges".
  JsonValue model;
  JsonValue normalizer;
  JsonValue pre_tokenizer;
  JsonValue post_processor;
  JsonValue decoder;

 private:
  absl::Status ReadNamedTokens(const GgufMetadata& metadata);
  absl::Status ReadAddedTokens(const GgufMetadata& metadata);
  absl::Status SetPostProcessor(const GgufMetadata& metadata,
                                bool adds_bos_by_default);
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_GGUF_VOCABULARY_H_
