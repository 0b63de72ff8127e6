// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/guarded_transformer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"

namespace lowmem {

absl::Status GuardedTransformer::Forward(absl::Span<const int32_t> ids,
                                         LogitsFor logits_for,
                                         const std::atomic<bool>* cancel,
                                         KvCache& kv,
                                         ForwardObserver& observer) {
  const uint32_t size_before = kv.size();
  absl::Status status =
      transformer_->Forward(ids, logits_for, cancel, kv, observer);
  if (!ranges_.lost()) return status;
  kv.Truncate(std::min(size_before, kv.size()));
  return absl::UnavailableError(absl::StrCat(
      Printable(path_),
      ": became shorter or could not be read while it was in use"));
}

}  // namespace lowmem
