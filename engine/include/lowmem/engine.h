// SPDX-License-Identifier: Apache-2.0
// The way into the library: open a model, start sessions.
//
//   lowmem::EngineOptions options;
//   options.model_path = "models/smollm2-bf16";
//   absl::StatusOr<std::unique_ptr<lowmem::Engine>> engine =
//       lowmem::Engine::Open(options);
//   if (!engine.ok()) return engine.status();
//   auto session = (*engine)->NewSession();
//   (*session)->AppendText("Once upon a time");
//   (*session)->Generate({}, [](absl::string_view text) { ...; return true; });
//
// Status codes: kInvalidArgument and kOutOfRange for the caller's mistakes,
// kNotFound for absent files, kDataLoss for damaged ones, kUnimplemented for
// valid but unsupported ones, kResourceExhausted for what does not fit the
// budget, kUnavailable for I/O trouble, kCancelled, kInternal for our bugs. The
// library never throws, prints, aborts or reads the environment.

#ifndef LOWMEM_ENGINE_H_
#define LOWMEM_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lowmem/export.h"
#include "lowmem/meter.h"
#include "lowmem/options.h"
#include "lowmem/session.h"

namespace lowmem {

// Thread safety: Open and the const methods are thread-safe. Sessions of one
// engine take turns: their Generate calls exclude one another. Lifetime: the
// engine must outlive its sessions.
class LOWMEM_EXPORT Engine {
 public:
  // Reads headers, configuration and tokenizer; in copy mode the weights too.
  // Errors: kResourceExhausted when the budget is too small, naming what is
  // needed, what was allowed and the largest item; kCancelled or whatever
  // on_load_progress returned; else as listed at the top.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(
      const EngineOptions& options);
  virtual ~Engine() = default;

  // A new, empty sequence. Holds no keys and values yet.
  virtual absl::StatusOr<std::unique_ptr<Session>> NewSession() = 0;

  // Token ids of `text`. `add_special`: with what the model puts around a text;
  // `parse_special`: special tokens spelt out in the text are recognised.
  // Errors: kInvalidArgument for text that is no UTF-8; kResourceExhausted when
  // the budget's part for text is too small for it.
  virtual absl::StatusOr<std::vector<int32_t>> Tokenize(
      absl::string_view text, bool add_special, bool parse_special) const = 0;
  virtual absl::StatusOr<std::string> Detokenize(absl::Span<const int32_t> ids,
                                                 bool skip_special) const = 0;

  virtual uint32_t vocab_size() const = 0;
  // Longest sequence of a session, and whether it is shorter than what is
  // wanted, or than the model's, for the budget's sake.
  virtual uint32_t max_context_tokens() const = 0;
  virtual bool budget_limits_context() const = 0;
  // What EngineOptions::max_context_tokens may ask for under the same budget:
  // more than max_context_tokens() where a context that nobody asked for was
  // chosen so that weights keep most of the memory.
  virtual uint32_t longest_context_tokens() const = 0;
  virtual absl::string_view family() const = 0;
  // Ids that end a generation: the union of what generation_config.json, the
  // model's configuration and its tokenizer name.
  virtual const std::vector<int32_t>& eos_ids() const = 0;
  // The mode that was taken, never kAuto, and why, in one line.
  virtual Mode mode() const = 0;
  virtual const std::string& mode_reason() const = 0;

  // Memory now, and what loading cost. Timings of generation are in a session's
  // meter.
  virtual Meter MemoryReport() const = 0;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_H_
