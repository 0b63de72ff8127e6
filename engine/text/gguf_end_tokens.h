// SPDX-License-Identifier: Apache-2.0
// Which tokens of a GGUF file end a generation. Its one key names one of them,
// where a published model may have several.

#ifndef LOWMEM_ENGINE_TEXT_GGUF_END_TOKENS_H_
#define LOWMEM_ENGINE_TEXT_GGUF_END_TOKENS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lowmem {

// A control token of the vocabulary. The view is the caller's.
struct GgufControlToken {
  int32_t id;
  absl::string_view text;
};

// Appends to `eos_ids` those of `tokens` whose names say that a turn or a text
// ends and that are not there yet.
void AppendWellKnownEndTokens(absl::Span<const GgufControlToken> tokens,
                              std::vector<int32_t>& eos_ids);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_GGUF_END_TOKENS_H_
