// SPDX-License-Identifier: Apache-2.0
// One sequence of tokens: what was appended, what was generated, and the keys
// and values that belong to them.

#ifndef LOWMEM_SESSION_H_
#define LOWMEM_SESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowmem/export.h"
#include "lowmem/meter.h"
#include "lowmem/options.h"

namespace lowmem {

enum class StopReason {
  kEos,          // an end token was chosen
  kStopText,     // one of stop_texts came up
  kLength,       // max_new_tokens
  kContext,      // the context is full
  kInterrupted,  // Cancel, or the callback returned false
};

// "eos", "stop", "length", "context", "interrupted".
LOWMEM_EXPORT absl::string_view StopReasonName(StopReason reason);

struct GenerateResult {
  // Generated; the end token is not among them, the tokens of a stop text are.
  std::vector<int32_t> ids;
  std::string text;  // exactly what the callback was given
  StopReason stop_reason = StopReason::kLength;
  Meter meter;
};

// Thread safety: one thread at a time, but for Cancel.
class LOWMEM_EXPORT Session {
 public:
  virtual ~Session() = default;

  // Appends to the sequence. Nothing is computed before Generate.
  // AppendText adds what the model puts in front of a text (BOS) only when the
  // sequence is empty.
  // Errors: kInvalidArgument for an id outside the vocabulary or text that is
  // no UTF-8; kOutOfRange when the context cannot hold it, kResourceExhausted
  // when it is the budget that makes the context too short, or that has no room
  // for a long text on its way to ids (the text itself is the caller's);
  // kCancelled after
  // Cancel, when the text is so long or odd that tokenizing it takes time
  // (nothing is appended then).
  virtual absl::Status AppendIds(absl::Span<const int32_t> ids) = 0;
  virtual absl::Status AppendText(absl::string_view text,
                                  bool parse_special = true) = 0;

  // Generates a continuation. Computes only what is not computed yet. `on_text`
  // gets whole characters as they come; when it returns false, generation ends
  // with kInterrupted. The generated tokens become part of the sequence.
  // Errors: kInvalidArgument for an empty sequence or an option out of range,
  // naming it; kResourceExhausted when other sessions hold keys and
  // values that the budget counted on; what the weights' files return. The
  // sequence keeps what was generated until then. Interruption is no error.
  virtual absl::StatusOr<GenerateResult> Generate(
      const GenerateOptions& options,
      absl::FunctionRef<bool(absl::string_view text)> on_text) = 0;

  // Logits [vocab_size] for every position that is not yet computed, in order;
  // for evaluation. A status other than OK ends it and is returned.
  // Errors: kCancelled after Cancel; as Generate.
  virtual absl::Status Score(absl::FunctionRef<absl::Status(
                                 uint64_t pos, absl::Span<const float> logits)>
                                 on_logits) = 0;

  // Ends a running AppendText, Generate or Score soon, or else the next one at
  // once: it stays in force until a call has ended because of it, with
  // kInterrupted or kCancelled. Several before that count as one. Safe from any
  // thread and from a signal handler.
  virtual void Cancel() = 0;

  // All tokens so far.
  virtual const std::vector<int32_t>& ids() const = 0;
  // Forgets everything from `num_tokens` on.
  // Errors: kOutOfRange when there are not so many.
  virtual absl::Status Truncate(uint64_t num_tokens) = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_SESSION_H_
