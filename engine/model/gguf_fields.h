// SPDX-License-Identifier: Apache-2.0
// Typed, bounded reading of the GGUF keys that begin with the name of the
// architecture, with the whole key in every message.

#ifndef LOWMEM_ENGINE_MODEL_GGUF_FIELDS_H_
#define LOWMEM_ENGINE_MODEL_GGUF_FIELDS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/gguf_metadata.h"

namespace lowmem {

// Lifetime: the metadata must outlive it. Thread safety: const methods are
// thread-safe.
// Errors of all readers: kDataLoss for a value of another kind or out of
// bounds, or, where no default is given, for an absent key.
class GgufFields {
 public:
  // `path` is only for messages.
  GgufFields(const GgufMetadata& metadata, std::string path,
             std::string architecture)
      : metadata_(metadata),
        path_(std::move(path)),
        architecture_(std::move(architecture)) {}

  // "llama.block_count" for "block_count".
  std::string Key(absl::string_view name) const;
  bool Has(absl::string_view name) const;

  // Integers from 1 to max.
  // Errors: also kUnimplemented for an array, which means a value a layer.
  absl::StatusOr<uint32_t> Uint(absl::string_view name, uint64_t max) const;
  absl::StatusOr<uint32_t> UintOr(absl::string_view name, uint64_t if_absent,
                                  uint64_t max) const;
  // Finite and above zero.
  absl::StatusOr<double> Positive(absl::string_view name) const;
  absl::StatusOr<double> PositiveOr(absl::string_view name,
                                    double if_absent) const;
  absl::StatusOr<std::string> StringOr(absl::string_view name,
                                       absl::string_view if_absent) const;

  // "path: key: what".
  absl::Status DataLoss(absl::string_view name, absl::string_view what) const;
  absl::Status Unimplemented(absl::string_view name,
                             absl::string_view what) const;

 private:
  const GgufMetadata& metadata_;
  const std::string path_;
  const std::string architecture_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_GGUF_FIELDS_H_
