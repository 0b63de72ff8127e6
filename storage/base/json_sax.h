// SPDX-License-Identifier: Apache-2.0
// Strict JSON as a stream of events, for headers, indexes and tokenizers of any
// size: the parser keeps one token in memory. It hides RapidJSON, whose number
// conversion is not safe on hostile text (CVE-2024-38517), so numbers arrive as
// their text and ParseJsonUint64 and its like convert them.
//
// Refused: text behind the value, NUL bytes, invalid UTF-8, unpaired
// surrogates, numbers beyond a double's range, nesting deeper than
// limits::kJsonDepth, more than limits::kJsonBytes. Duplicate keys are the
// handler's to refuse.

#ifndef LOWMEM_STORAGE_BASE_JSON_SAX_H_
#define LOWMEM_STORAGE_BASE_JSON_SAX_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace lowmem {

// Receives the events of one document in order. A status other than OK ends the
// parse and is what ParseJson returns. The views are valid during the call
// only.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual absl::Status OnObjectBegin() = 0;
  virtual absl::Status OnKey(absl::string_view key) = 0;
  virtual absl::Status OnObjectEnd() = 0;
  virtual absl::Status OnArrayBegin() = 0;
  virtual absl::Status OnArrayEnd() = 0;
  virtual absl::Status OnString(absl::string_view value) = 0;
  // The number as written, for example "1e5" or "-0".
  virtual absl::Status OnNumber(absl::string_view text) = 0;
  virtual absl::Status OnBool(bool value) = 0;
  virtual absl::Status OnNull() = 0;
};

// Bytes in order. Read fills a part of `out` and returns how many bytes; 0 is
// the end.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
};

// Parses one JSON document. The stream form reads 64 KiB at a time.
// Errors: kDataLoss with the byte offset for malformed text; what the handler
// or the stream returned otherwise.
absl::Status ParseJson(absl::string_view text, JsonHandler& handler);
absl::Status ParseJson(ByteStream& stream, JsonHandler& handler);

// Conversion of OnNumber's text. nullopt where it is not exactly representable
// in the type: fractions, exponents and a leading minus are no unsigned
// integer.
std::optional<uint64_t> ParseJsonUint64(absl::string_view text);
std::optional<int64_t> ParseJsonInt64(absl::string_view text);
// Nearest double; nullopt for overflow to infinity.
std::optional<double> ParseJsonDouble(absl::string_view text);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_JSON_SAX_H_
