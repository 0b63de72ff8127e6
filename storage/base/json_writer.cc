// SPDX-License-Identifier: Apache-2.0
#include "storage/base/json_writer.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

void AppendEscapedAscii(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        absl::StrAppend(&out, "\\u", absl::Hex(c, absl::kZeroPad4));
      } else {
        out += c;
      }
  }
}

void AppendQuoted(absl::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const Utf8Step step = DecodeUtf8(text);
    if (!step.ok) {
      out += "\xEF\xBF\xBD";  // U+FFFD
    } else if (step.num_bytes == 1) {
      AppendEscapedAscii(text[0], out);
    } else {
      out.append(text.data(), step.num_bytes);
    }
    text.remove_prefix(step.num_bytes);
  }
  out += '"';
}

}  // namespace

JsonWriter& JsonWriter::BeginObject() {
  BeforeValue();
  text_ += '{';
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  Close('}');
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  BeforeValue();
  text_ += '[';
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  Close(']');
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view key) {
  BeforeValue();
  AppendQuoted(key, text_);
  text_ += style_ == Style::kIndented ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) {
  BeforeValue();
  AppendQuoted(value, text_);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) {
  BeforeValue();
  absl::StrAppend(&text_, value);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  BeforeValue();
  char digits[32];  // the longest shortest form has 24 characters
  const std::to_chars_result end =
      std::to_chars(digits, digits + sizeof(digits), value);
  text_.append(digits, end.ptr);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Value(const JsonValue& value) {
  switch (value.kind()) {
    case JsonValue::Kind::kNull:
      return Null();
    case JsonValue::Kind::kBool:
      return Bool(*value.AsBool());
    case JsonValue::Kind::kNumber:
      BeforeValue();
      text_ += value.number_text();
      return *this;
    case JsonValue::Kind::kString:
      return String(value.string());
    case JsonValue::Kind::kArray:
      BeginArray();
      for (const JsonValue& item : value.items()) Value(item);
      return EndArray();
    case JsonValue::Kind::kObject:
      BeginObject();
      for (const JsonValue::Member& member : value.members()) {
        Key(member.first).Value(member.second);
      }
      return EndObject();
  }
  return *this;
}

std::string JsonWriter::TakeText() { return std::exchange(text_, {}); }

void JsonWriter::BeforeValue() {
  if (std::exchange(after_key_, false) || has_items_.empty()) return;
  if (has_items_.back()) text_ += ',';
  has_items_.back() = true;
  if (style_ == Style::kIndented) {
    text_ += '\n';
    text_.append(2 * has_items_.size(), ' ');
  }
}

void JsonWriter::Close(char bracket) {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items && style_ == Style::kIndented) {
    text_ += '\n';
    text_.append(2 * has_items_.size(), ' ');
  }
  text_ += bracket;
}

}  // namespace lowmem
