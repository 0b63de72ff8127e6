// SPDX-License-Identifier: Apache-2.0
// Typed access to the members of a JSON object, with errors that name them.

#ifndef LOWMEM_ENGINE_TEXT_JSON_SETTINGS_H_
#define LOWMEM_ENGINE_TEXT_JSON_SETTINGS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/base/json.h"

namespace lowmem {

// `status` with "context: " in front of its message.
absl::Status InContext(const absl::Status& status, absl::string_view context);

// The same with a file's path, unless the message has it already.
absl::Status InFile(const absl::Status& status, absl::string_view path);

// The member `key`. With a fallback, absence and null give that.
// Errors: kDataLoss naming the key when it is of another kind, or absent
// without a fallback.
absl::StatusOr<bool> GetBool(const JsonValue& object, absl::string_view key,
                             std::optional<bool> fallback = std::nullopt);
absl::StatusOr<std::string> GetString(
    const JsonValue& object, absl::string_view key,
    std::optional<std::string> fallback = std::nullopt);

// The member "type" of a step in tokenizer.json; the view is of `step`.
absl::StatusOr<absl::string_view> TypeOf(const JsonValue& step);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_JSON_SETTINGS_H_
