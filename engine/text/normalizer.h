// SPDX-License-Identifier: Apache-2.0
// What happens to a text before it is cut into pieces, as the "normalizer" of
// tokenizer.json states it: Unicode normal forms, Replace, Prepend, Lowercase,
// Strip, and sequences of them.

#ifndef LOWMEM_ENGINE_TEXT_NORMALIZER_H_
#define LOWMEM_ENGINE_TEXT_NORMALIZER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/text/regex.h"
#include "storage/base/json.h"
#include "storage/base/memory_account.h"

namespace lowmem {

// One step. Thread safety: const methods are thread-safe.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Appends the normalized `text` to `out`.
  virtual absl::Status Append(absl::string_view text, RegexScratch& scratch,
                              std::string& out) const = 0;
};

struct NormalizedText {
  std::string text;
  MemoryCharge charge;  // of it, to the account of the scratch
};

// Thread safety: const methods are thread-safe.
class Normalizer {
 public:
  // `spec` is the value of "normalizer"; null is no step.
  // Errors: kUnimplemented naming a kind that is not supported; kDataLoss.
  static absl::StatusOr<Normalizer> FromJson(const JsonValue& spec);

  bool is_identity() const { return steps_.empty(); }

  // A step takes the text before it and the one that it makes.
  // Errors: kUnimplemented when a step makes the text more than four times and
  // 1 KiB longer, or a pattern is too expensive; kResourceExhausted by the
  // scratch's account.
  absl::StatusOr<NormalizedText> Normalize(absl::string_view text,
                                           RegexScratch& scratch) const;

 private:
  absl::Status AddSteps(const JsonValue& spec);

  std::vector<std::unique_ptr<const NormalizerStep>> steps_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_NORMALIZER_H_
