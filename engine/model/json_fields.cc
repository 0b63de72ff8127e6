// SPDX-License-Identifier: Apache-2.0
#include "engine/model/json_fields.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {

std::string DescribeJson(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      return "null";
    case JsonValue::Kind::kBool:
      return *value.AsBool() ? "true" : "false";
    case JsonValue::Kind::kNumber:
      return Printable(value.number_text());
    case JsonValue::Kind::kString:
      return absl::StrCat("\"", Printable(value.string()), "\"");
    case JsonValue::Kind::kArray:
      return "an array";
    case JsonValue::Kind::kObject:
      return "an object";
  }
  return "nothing";
}

const JsonValue* JsonFields::Find(absl::string_view key) const {
  const JsonValue* value = object_.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool JsonFields::IsNull(absl::string_view key) const {
  const JsonValue* value = object_.Find(key);
  return value != nullptr && value->is_null();
}

absl::Status JsonFields::DataLoss(absl::string_view key,
                                  absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(where_, ": ", key, ": ", what));
}

absl::Status JsonFields::Unimplemented(absl::string_view key,
                                       absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(where_, ": ", key, ": ", what));
}

absl::Status JsonFields::Unexpected(absl::string_view key,
                                    absl::string_view expected,
                                    const JsonValue* got) const {
  return DataLoss(
      key, absl::StrCat("expected ", expected, ", got ",
                        got == nullptr ? "nothing" : DescribeJson(*got)));
}

absl::StatusOr<std::optional<uint64_t>> JsonFields::OptionalUint(
    absl::string_view key, uint64_t min, uint64_t max) const {
  const JsonValue* value = Find(key);
  if (value == nullptr) return std::optional<uint64_t>();
  const std::optional<uint64_t> number = value->AsUint64();
  if (!number.has_value() || *number < min || *number > max) {
    return Unexpected(key, absl::StrCat("an integer from ", min, " to ", max),
                      value);
  }
  return number;
}

absl::StatusOr<uint32_t> JsonFields::Uint32(absl::string_view key, uint64_t min,
                                            uint64_t max) const {
  LOWMEM_ASSIGN_OR_RETURN(const std::optional<uint64_t> number,
                          OptionalUint(key, min, max));
  if (!number.has_value()) {
    return Unexpected(key, absl::StrCat("an integer from ", min, " to ", max),
                      nullptr);
  }
  return static_cast<uint32_t>(*number);
}

absl::StatusOr<std::optional<double>> JsonFields::OptionalPositive(
    absl::string_view key) const {
  const JsonValue* value = Find(key);
  if (value == nullptr) return std::optional<double>();
  const std::optional<double> number = value->AsDouble();
  if (!number.has_value() || !std::isfinite(*number) || *number <= 0) {
    return Unexpected(key, "a number above zero", value);
  }
  return number;
}

absl::StatusOr<double> JsonFields::Positive(absl::string_view key) const {
  LOWMEM_ASSIGN_OR_RETURN(const std::optional<double> number,
                          OptionalPositive(key));
  if (!number.has_value())
    return Unexpected(key, "a number above zero", nullptr);
  return *number;
}

absl::StatusOr<bool> JsonFields::BoolOr(absl::string_view key,
                                        bool if_absent) const {
  const JsonValue* value = Find(key);
  if (value == nullptr) return if_absent;
  if (!value->is_bool()) return Unexpected(key, "true or false", value);
  return *value->AsBool();
}

absl::StatusOr<std::string> JsonFields::OptionalString(
    absl::string_view key) const {
  const JsonValue* value = Find(key);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return Unexpected(key, "a string", value);
  return value->string();
}

absl::StatusOr<JsonFields> JsonFields::Object(absl::string_view key) const {
  const JsonValue* value = Find(key);
  if (value == nullptr || !value->is_object()) {
    return Unexpected(key, "an object", value);
  }
  return JsonFields(*value, absl::StrCat(where_, ": ", key));
}

}  // namespace lowmem
