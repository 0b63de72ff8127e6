// SPDX-License-Identifier: Apache-2.0
// JSON text, appended to a string. Commas and escapes are the writer's; invalid
// UTF-8 becomes U+FFFD, so the result is always valid JSON.

#ifndef LOWMEM_STORAGE_BASE_JSON_WRITER_H_
#define LOWMEM_STORAGE_BASE_JSON_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "storage/base/json.h"

namespace lowmem {

// Writes one document. Methods may be chained:
//   JsonWriter json;
//   json.BeginObject().Key("ids").BeginArray().Uint(7).EndArray().EndObject();
// Thread safety: one thread at a time.
class JsonWriter {
 public:
  enum class Style { kCompact, kIndented };
  explicit JsonWriter(Style style = Style::kCompact) : style_(style) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(absl::string_view key);
  JsonWriter& String(absl::string_view value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Int(int64_t value);
  // Shortest text that reads back as the same double; null for NaN and
  // infinity.
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Value(const JsonValue& value);

  // The text so far. Complete once every Begin has its End.
  const std::string& text() const { return text_; }
  // Takes the text out, for writing large documents piece by piece.
  std::string TakeText();

 private:
  void BeforeValue();
  void Close(char bracket);

  const Style style_;
  std::string text_;
  std::vector<bool> has_items_;  // per open bracket
  bool after_key_ = false;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_JSON_WRITER_H_
