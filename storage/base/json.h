// SPDX-License-Identifier: Apache-2.0
// A small read-only JSON document for configuration files and requests. Large
// files go through json_sax.h instead.

#ifndef LOWMEM_STORAGE_BASE_JSON_H_
#define LOWMEM_STORAGE_BASE_JSON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem {

// One value with everything below it. Keys keep the order of the text.
// Ownership: holds copies; independent of the parsed text.
// Thread safety: const methods are safe to call together.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  using Member = std::pair<std::string, JsonValue>;

  // Parses a document. Duplicate keys are refused.
  // Errors: kDataLoss, with the byte offset or the key that came twice.
  static absl::StatusOr<JsonValue> Parse(absl::string_view text);

  JsonValue() = default;
  static JsonValue Bool(bool value);
  static JsonValue Number(std::string text);
  static JsonValue String(std::string value);
  static JsonValue Array(std::vector<JsonValue> items);
  static JsonValue Object(std::vector<Member> members);

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_number() const { return kind_ == Kind::kNumber; }
  bool is_bool() const { return kind_ == Kind::kBool; }

  // nullopt when the value is of another kind or does not fit the type exactly.
  std::optional<bool> AsBool() const;
  std::optional<uint64_t> AsUint64() const;
  std::optional<int64_t> AsInt64() const;
  std::optional<double> AsDouble() const;
  // The number as written. Empty unless is_number().
  const std::string& number_text() const { return text_; }
  // Empty unless is_string().
  const std::string& string() const { return text_; }
  // Empty unless is_array() or is_object().
  const std::vector<JsonValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }

  // The member named `key`, or nullptr (also when this is no object).
  const JsonValue* Find(absl::string_view key) const;

 private:
  Kind kind_ = Kind::kNull;
  bool bool_ = false;
  std::string text_;
  std::vector<JsonValue> items_;
  std::vector<Member> members_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_JSON_H_
