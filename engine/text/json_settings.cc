// SPDX-License-Identifier: Apache-2.0
#include "engine/text/json_settings.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace lowmem {
namespace {

absl::Status Expected(absl::string_view key, absl::string_view kind,
                      const JsonValue* value) {
  return absl::DataLossError(absl::StrCat(
      "\"", key, "\" ", value == nullptr ? "is missing" : "is of another kind",
      "; expected ", kind));
}

}  // namespace

absl::Status InContext(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(context, ": ", status.message()));
}

absl::Status InFile(const absl::Status& status, absl::string_view path) {
  return absl::StartsWith(status.message(), path) ? status
                                                  : InContext(status, path);
}

absl::StatusOr<bool> GetBool(const JsonValue& object, absl::string_view key,
                             std::optional<bool> fallback) {
  const JsonValue* value = object.Find(key);
  if (value != nullptr && value->is_bool()) return *value->AsBool();
  if ((value == nullptr || value->is_null()) && fallback.has_value()) {
    return *fallback;
  }
  return Expected(key, "true or false", value);
}

absl::StatusOr<std::string> GetString(const JsonValue& object,
                                      absl::string_view key,
                                      std::optional<std::string> fallback) {
  const JsonValue* value = object.Find(key);
  if (value != nullptr && value->is_string()) return value->string();
  if ((value == nullptr || value->is_null()) && fallback.has_value()) {
    return *std::move(fallback);
  }
  return Expected(key, "a string", value);
}

absl::StatusOr<absl::string_view> TypeOf(const JsonValue& step) {
  const JsonValue* type = step.Find("type");
  if (type != nullptr && type->is_string()) {
    return absl::string_view(type->string());
  }
  return Expected("type", "a string", type);
}

}  // namespace lowmem
