// SPDX-License-Identifier: Apache-2.0
#include "engine/text/json_tree_builder.h"

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// Far above any published tokenizer's settings.
constexpr size_t kMaxValues = 10'000;
constexpr size_t kMaxTextBytes = 4u << 20;

}  // namespace

absl::Status JsonTreeBuilder::Charge(size_t text_bytes) {
  if (++num_values_ > kMaxValues || text_bytes > kMaxTextBytes - text_bytes_) {
    return absl::DataLossError(absl::StrCat("too large; expected at most ",
                                            kMaxValues, " values and ",
                                            kMaxTextBytes, " bytes of text"));
  }
  text_bytes_ += text_bytes;
  return absl::OkStatus();
}

absl::Status JsonTreeBuilder::Place(JsonValue value) {
  if (open_.empty()) {
    result_ = std::move(value);
    done_ = true;
  } else if (open_.back().is_object) {
    open_.back().members.emplace_back(std::move(open_.back().key),
                                      std::move(value));
  } else {
    open_.back().items.push_back(std::move(value));
  }
  return absl::OkStatus();
}

absl::Status JsonTreeBuilder::OnObjectBegin() {
  open_.emplace_back().is_object = true;
  return Charge(0);
}

absl::Status JsonTreeBuilder::OnArrayBegin() {
  open_.emplace_back();
  return Charge(0);
}

absl::Status JsonTreeBuilder::OnKey(absl::string_view key) {
  for (const JsonValue::Member& member : open_.back().members) {
    if (member.first == key) {
      return absl::DataLossError(
          absl::StrCat("duplicate key \"", Printable(key), "\""));
    }
  }
  open_.back().key = std::string(key);
  return Charge(key.size());
}

absl::Status JsonTreeBuilder::Close() {
  Open closed = std::move(open_.back());
  open_.pop_back();
  return Place(closed.is_object ? JsonValue::Object(std::move(closed.members))
                                : JsonValue::Array(std::move(closed.items)));
}

absl::Status JsonTreeBuilder::OnString(absl::string_view value) {
  LOWMEM_RETURN_IF_ERROR(Charge(value.size()));
  return Place(JsonValue::String(std::string(value)));
}

absl::Status JsonTreeBuilder::OnNumber(absl::string_view text) {
  LOWMEM_RETURN_IF_ERROR(Charge(text.size()));
  return Place(JsonValue::Number(std::string(text)));
}

absl::Status JsonTreeBuilder::OnBool(bool value) {
  LOWMEM_RETURN_IF_ERROR(Charge(0));
  return Place(JsonValue::Bool(value));
}

absl::Status JsonTreeBuilder::OnNull() {
  LOWMEM_RETURN_IF_ERROR(Charge(0));
  return Place(JsonValue());
}

JsonValue JsonTreeBuilder::Take() {
  JsonValue taken = std::move(result_);
  *this = JsonTreeBuilder();
  return taken;
}

}  // namespace lowmem
