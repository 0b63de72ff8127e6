// SPDX-License-Identifier: Apache-2.0
#include "storage/base/json_sax.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "storage/base/limits.h"

// No input reaches RapidJSON's assertions, and a library must not abort if one
// did.
#define RAPIDJSON_ASSERT(condition) (static_cast<void>(0))
#include "rapidjson/reader.h"

namespace lowmem {
namespace {

constexpr size_t kChunkBytes = 64u << 10;

absl::Status MalformedAt(uint64_t offset_bytes, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("malformed JSON at byte ", offset_bytes, ": ", what));
}

// RapidJSON's view of a ByteStream. The chunk always has a NUL behind it, which
// RapidJSON takes for the end of the text; a NUL of the text itself cuts the
// chunk short, so that it ends the parse too and can be told apart afterwards.
class ChunkedInput {
 public:
  using Ch = char;

  explicit ChunkedInput(ByteStream& stream)
      : stream_(stream), chunk_(new char[kChunkBytes + 1]) {
    Refill();
  }

  char Peek() const { return *next_; }
  char Take() {
    const char c = *next_;
    if (next_ != end_ && ++next_ == end_) Refill();
    return c;
  }
  size_t Tell() const { return chunk_offset_bytes_ + (next_ - chunk_.get()); }

  // Only in-place parsing writes to its input; RapidJSON wants the names.
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  size_t PutEnd(char*) { return 0; }

  // Why the text ended where it did. OK for its true end.
  absl::Status EndStatus() const {
    if (next_ != end_) return absl::OkStatus();
    return end_status_;
  }

 private:
  void Refill() {
    chunk_offset_bytes_ += end_ - chunk_.get();
    next_ = end_ = chunk_.get();
    if (end_status_.ok()) end_ += ReadChunk();
    *end_ = '\0';
  }

  size_t ReadChunk() {
    absl::StatusOr<size_t> num_bytes =
        stream_.Read(absl::MakeSpan(chunk_.get(), kChunkBytes));
    if (!num_bytes.ok()) {
      end_status_ = num_bytes.status();
      return 0;
    }
    if (*num_bytes > limits::kJsonBytes - chunk_offset_bytes_) {
      end_status_ = absl::DataLossError(
          absl::StrCat("JSON text is too long; expected at most ",
                       limits::kJsonBytes, " bytes"));
      return 0;
    }
    const void* nul = std::memchr(chunk_.get(), '\0', *num_bytes);
    if (nul == nullptr) return *num_bytes;
    const size_t num_before = static_cast<const char*>(nul) - chunk_.get();
    end_status_ = MalformedAt(chunk_offset_bytes_ + num_before, "NUL byte");
    return num_before;
  }

  ByteStream& stream_;
  const std::unique_ptr<char[]> chunk_;
  uint64_t chunk_offset_bytes_ = 0;
  char* next_ = chunk_.get();
  char* end_ = chunk_.get();
  absl::Status end_status_;
};

// An escape such as \udc00 stands for no character, yet RapidJSON turns it into
// three bytes that are no UTF-8. Raw bytes of this kind it refuses itself.
bool HasSurrogate(absl::string_view text) {
  for (size_t i = text.find('\xED'); i != absl::string_view::npos;
       i = text.find('\xED', i + 1)) {
    if (i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) >= 0xA0) {
      return true;
    }
  }
  return false;
}

// RapidJSON's events, passed on with the depth checked.
class Events {
 public:
  Events(JsonHandler& handler, const ChunkedInput& input)
      : handler_(handler), input_(input) {}

  bool Null() { return Pass(handler_.OnNull()); }
  bool Bool(bool value) { return Pass(handler_.OnBool(value)); }
  bool RawNumber(const char* text, unsigned length, bool) {
    return Pass(handler_.OnNumber({text, length}));
  }
  bool String(const char* text, unsigned length, bool) {
    const absl::string_view value(text, length);
    return CheckString(value) && Pass(handler_.OnString(value));
  }
  bool Key(const char* text, unsigned length, bool) {
    const absl::string_view key(text, length);
    return CheckString(key) && Pass(handler_.OnKey(key));
  }
  bool StartObject() { return Deepen() && Pass(handler_.OnObjectBegin()); }
  bool EndObject(unsigned) { return --depth_, Pass(handler_.OnObjectEnd()); }
  bool StartArray() { return Deepen() && Pass(handler_.OnArrayBegin()); }
  bool EndArray(unsigned) { return --depth_, Pass(handler_.OnArrayEnd()); }

  // Never called: numbers come as their text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(int64_t) { return false; }
  bool Uint64(uint64_t) { return false; }
  bool Double(double) { return false; }

  const absl::Status& status() const { return status_; }

 private:
  bool Pass(absl::Status status) {
    status_ = std::move(status);
    return status_.ok();
  }
  bool Deepen() {
    if (++depth_ <= limits::kJsonDepth) return true;
    return Pass(MalformedAt(input_.Tell(),
                            absl::StrCat("nested too deeply; expected at most ",
                                         limits::kJsonDepth, " levels")));
  }
  bool CheckString(absl::string_view text) {
    if (!HasSurrogate(text)) return true;
    return Pass(MalformedAt(input_.Tell(), "unpaired surrogate in a string"));
  }

  JsonHandler& handler_;
  const ChunkedInput& input_;
  int depth_ = 0;
  absl::Status status_;
};

absl::string_view Describe(rapidjson::ParseErrorCode code) {
  using namespace rapidjson;  // its error codes alone
  switch (code) {
    case kParseErrorDocumentEmpty:
      return "no value";
    case kParseErrorDocumentRootNotSingular:
      return "text behind the value";
    case kParseErrorObjectMissName:
      return "expected a key";
    case kParseErrorObjectMissColon:
      return "expected ':'";
    case kParseErrorObjectMissCommaOrCurlyBracket:
      return "expected ',' or '}'";
    case kParseErrorArrayMissCommaOrSquareBracket:
      return "expected ',' or ']'";
    case kParseErrorStringUnicodeEscapeInvalidHex:
    case kParseErrorStringUnicodeSurrogateInvalid:
    case kParseErrorStringEscapeInvalid:
      return "invalid escape or control character in a string";
    case kParseErrorStringMissQuotationMark:
      return "unterminated string";
    case kParseErrorStringInvalidEncoding:
      return "invalid UTF-8";
    case kParseErrorNumberTooBig:
      return "number beyond the range of a double";
    case kParseErrorNumberMissFraction:
    case kParseErrorNumberMissExponent:
      return "expected a digit";
    default:
      return "expected a value";
  }
}

class TextStream final : public ByteStream {
 public:
  explicit TextStream(absl::string_view text) : rest_(text) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t num_bytes = rest_.copy(out.data(), out.size());
    rest_.remove_prefix(num_bytes);
    return num_bytes;
  }

 private:
  absl::string_view rest_;
};

template <typename Integer>
std::optional<Integer> ParseInteger(absl::string_view text) {
  Integer value;
  const char* end = text.data() + text.size();
  const std::from_chars_result result =
      std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

absl::Status ParseJson(ByteStream& stream, JsonHandler& handler) {
  // Numbers as text: the conversion of 1.1.0 overflows on "0.01e-2147483639"
  // and then reads out of bounds.
  constexpr unsigned kFlags = rapidjson::kParseIterativeFlag |
                              rapidjson::kParseValidateEncodingFlag |
                              rapidjson::kParseNumbersAsStringsFlag;
  ChunkedInput input(stream);
  Events events(handler, input);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(input, events);
  if (!events.status().ok()) return events.status();
  if (absl::Status end = input.EndStatus(); !end.ok()) return end;
  if (result.IsError()) {
    return MalformedAt(result.Offset(), Describe(result.Code()));
  }
  return absl::OkStatus();
}

absl::Status ParseJson(absl::string_view text, JsonHandler& handler) {
  TextStream stream(text);
  return ParseJson(stream, handler);
}

std::optional<uint64_t> ParseJsonUint64(absl::string_view text) {
  return ParseInteger<uint64_t>(text);
}

std::optional<int64_t> ParseJsonInt64(absl::string_view text) {
  return ParseInteger<int64_t>(text);
}

std::optional<double> ParseJsonDouble(absl::string_view text) {
  // Keeps out "inf", "nan" and hexadecimal digits, which from_chars knows and
  // JSON does not.
  absl::string_view digits = text;
  absl::ConsumePrefix(&digits, "-");
  if (digits.empty() || digits[0] < '0' || digits[0] > '9' ||
      digits.find_first_of("xX") != absl::string_view::npos) {
    return std::nullopt;
  }
  double value;
  const char* end = text.data() + text.size();
  const absl::from_chars_result result =
      absl::from_chars(text.data(), end, value);
  if (result.ptr != end) return std::nullopt;
  // Out of range is said of tiny numbers too; those round to zero or near it.
  if (result.ec != std::errc() && std::abs(value) > 1.0) return std::nullopt;
  return value;
}

}  // namespace lowmem
