// SPDX-License-Identifier: Apache-2.0
// Finds stop texts in a text that comes in pieces, and holds back what might be
// the beginning of one. Tokens, ids and limits are generator.h's business.

#ifndef LOWMEM_ENGINE_GENERATE_STOP_H_
#define LOWMEM_ENGINE_GENERATE_STOP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lowmem {

// Errors: kInvalidArgument, naming the option, for more than 64 texts, for one
// that is empty, longer than 4096 bytes or no UTF-8.
absl::Status ValidateStopTexts(absl::Span<const std::string> stop_texts);

// The result does not depend on how the text is cut into pieces: the stop text
// that is complete first wins; of those complete at the same byte the longest.
// Thread safety: one thread at a time.
// Memory: 2 bytes for each byte of the stop texts, and the longest of them.
// Lifetime: the stop texts outlive it.
class StopTextScanner {
 public:
  // REQUIRES: ValidateStopTexts(stop_texts).ok().
  explicit StopTextScanner(absl::Span<const std::string> stop_texts);

  // Takes the next piece and returns what can be handed out: everything but the
  // longest end that may become a stop text; after a stop text, what stood
  // before it. Whole characters when the pieces are. REQUIRES: !stopped().
  std::string Add(absl::string_view piece);

  // What was held back; nothing when stopped.
  std::string Finish();

  bool stopped() const { return stopped_; }

 private:
  // Knuth, Morris and Pratt: border[i] is the length of the longest proper
  // prefix of text that ends at its byte i.
  struct Pattern {
    absl::string_view text;
    std::vector<uint16_t> border;
    size_t num_matched = 0;
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_STOP_H_
