// SPDX-License-Identifier: Apache-2.0
#include "storage/base/json.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/base/json_sax.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Sorted rather than searched key by key: a hostile object of a million keys
// must not take a million squared steps.
absl::Status CheckKeysUnique(const std::vector<JsonValue::Member>& members) {
  std::vector<absl::string_view> keys;
  keys.reserve(members.size());
  for (const JsonValue::Member& member : members) keys.push_back(member.first);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("duplicate key \"", Printable(*twice), "\" in JSON"));
}

// Builds values from the inside out: the open arrays and objects wait on a
// stack.
class ValueBuilder final : public JsonHandler {
 public:
  absl::Status OnObjectBegin() override { return Open(); }
  absl::Status OnArrayBegin() override { return Open(); }
  absl::Status OnKey(absl::string_view key) override {
    open_.back().key = std::string(key);
    return absl::OkStatus();
  }
  absl::Status OnObjectEnd() override {
    std::vector<JsonValue::Member> members = std::move(open_.back().members);
    LOWMEM_RETURN_IF_ERROR(CheckKeysUnique(members));
    open_.pop_back();
    return Add(JsonValue::Object(std::move(members)));
  }
  absl::Status OnArrayEnd() override {
    std::vector<JsonValue> items = std::move(open_.back().items);
    open_.pop_back();
    return Add(JsonValue::Array(std::move(items)));
  }
  absl::Status OnString(absl::string_view value) override {
    return Add(JsonValue::String(std::string(value)));
  }
  absl::Status OnNumber(absl::string_view text) override {
    return Add(JsonValue::Number(std::string(text)));
  }
  absl::Status OnBool(bool value) override {
    return Add(JsonValue::Bool(value));
  }
  absl::Status OnNull() override { return Add(JsonValue()); }

  JsonValue TakeRoot() { return std::move(root_); }

 private:
  struct OpenValue {
    std::optional<std::string> key;  // of the member to come; none in arrays
    std::vector<JsonValue> items;
    std::vector<JsonValue::Member> members;
  };

  absl::Status Open() {
    open_.emplace_back();
    return absl::OkStatus();
  }

  absl::Status Add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (OpenValue& parent = open_.back(); parent.key.has_value()) {
      parent.members.emplace_back(*std::move(parent.key), std::move(value));
    } else {
      parent.items.push_back(std::move(value));
    }
    return absl::OkStatus();
  }

  std::vector<OpenValue> open_;
  JsonValue root_;
};

}  // namespace

absl::StatusOr<JsonValue> JsonValue::Parse(absl::string_view text) {
  ValueBuilder builder;
  LOWMEM_RETURN_IF_ERROR(ParseJson(text, builder));
  return builder.TakeRoot();
}

JsonValue JsonValue::Bool(bool value) {
  JsonValue result;
  result.kind_ = Kind::kBool;
  result.bool_ = value;
  return result;
}

JsonValue JsonValue::Number(std::string text) {
  JsonValue result;
  result.kind_ = Kind::kNumber;
  result.text_ = std::move(text);
  return result;
}

JsonValue JsonValue::String(std::string value) {
  JsonValue result;
  result.kind_ = Kind::kString;
  result.text_ = std::move(value);
  return result;
}

JsonValue JsonValue::Array(std::vector<JsonValue> items) {
  JsonValue result;
  result.kind_ = Kind::kArray;
  result.items_ = std::move(items);
  return result;
}

JsonValue JsonValue::Object(std::vector<Member> members) {
  JsonValue result;
  result.kind_ = Kind::kObject;
  result.members_ = std::move(members);
  return result;
}

std::optional<bool> JsonValue::AsBool() const {
  if (!is_bool()) return std::nullopt;
  return bool_;
}

std::optional<uint64_t> JsonValue::AsUint64() const {
  if (!is_number()) return std::nullopt;
  return ParseJsonUint64(text_);
}

std::optional<int64_t> JsonValue::AsInt64() const {
  if (!is_number()) return std::nullopt;
  return ParseJsonInt64(text_);
}

std::optional<double> JsonValue::AsDouble() const {
  if (!is_number()) return std::nullopt;
  return ParseJsonDouble(text_);
}

const JsonValue* JsonValue::Find(absl::string_view key) const {
  for (const Member& member : members_) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

}  // namespace lowmem
