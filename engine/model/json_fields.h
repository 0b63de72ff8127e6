// SPDX-License-Identifier: Apache-2.0
// Typed, bounded reading of the members of a JSON object, with the key in every
// message. An absent key and null are the same thing, as they are to
// transformers.

#ifndef LOWMEM_ENGINE_MODEL_JSON_FIELDS_H_
#define LOWMEM_ENGINE_MODEL_JSON_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/base/json.h"

namespace lowmem {

// Lifetime: the value must outlive it. Thread safety: const methods are
// thread-safe. Errors of all readers: kDataLoss for a value of another kind or
// out of bounds.
class JsonFields {
 public:
  // `where` begins every message: the file, and the key of a nested object.
  JsonFields(const JsonValue& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  // nullptr when the key is absent or null.
  const JsonValue* Find(absl::string_view key) const;
  // Whether the key is there and null.
  bool IsNull(absl::string_view key) const;

  // Integers in [min, max].
  absl::StatusOr<std::optional<uint64_t>> OptionalUint(absl::string_view key,
                                                       uint64_t min,
                                                       uint64_t max) const;
  // As above; absent is an error.
  absl::StatusOr<uint32_t> Uint32(absl::string_view key, uint64_t min,
                                  uint64_t max) const;
  // Finite and above zero.
  absl::StatusOr<std::optional<double>> OptionalPositive(
      absl::string_view key) const;
  absl::StatusOr<double> Positive(absl::string_view key) const;
  absl::StatusOr<bool> BoolOr(absl::string_view key, bool if_absent) const;
  // Empty when absent.
  absl::StatusOr<std::string> OptionalString(absl::string_view key) const;
  // Absent is an error.
  absl::StatusOr<JsonFields> Object(absl::string_view key) const;

  // "where: key: what".
  absl::Status DataLoss(absl::string_view key, absl::string_view what) const;
  absl::Status Unimplemented(absl::string_view key,
                             absl::string_view what) const;
  // "where: key: expected E, got G".
  absl::Status Unexpected(absl::string_view key, absl::string_view expected,
                          const JsonValue* got) const;

 private:
  const JsonValue& object_;
  const std::string where_;
};

// The value in a few printable characters.
std::string DescribeJson(const JsonValue& value);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_MODEL_JSON_FIELDS_H_
