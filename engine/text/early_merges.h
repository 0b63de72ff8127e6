// SPDX-License-Identifier: Apache-2.0
// Merges that stand in the file before the vocabulary they refer to.

#ifndef LOWMEM_ENGINE_TEXT_EARLY_MERGES_H_
#define LOWMEM_ENGINE_TEXT_EARLY_MERGES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/text/bpe_model.h"
#include "engine/text/vocabulary.h"

namespace lowmem {

// Memory: the text and eight bytes a merge, until MoveTo.
class EarlyMerges {
 public:
  void Add(absl::string_view left, absl::string_view right);

  // Adds all to `merges`, in order, and forgets them.
  // Errors: those of AddMerge.
  absl::Status MoveTo(const Vocabulary& vocabulary, MergeTable& merges);

 private:
  std::string text_;  // of each piece its length in four bytes, then itself
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_EARLY_MERGES_H_
