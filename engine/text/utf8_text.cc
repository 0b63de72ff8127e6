// SPDX-License-Identifier: Apache-2.0
#include "engine/text/utf8_text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "storage/base/utf8.h"

namespace lowmem {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// A character, or what stands in its place.
struct Part {
  enum class Kind { kWhole, kInvalid, kUnfinished } kind;
  size_t num_bytes;
};

struct LeadByte {
  uint8_t num_bytes;  // 0 where no character begins with it
  uint8_t second_min;
  uint8_t second_max;
};

// Unicode 15.0, table 3-7: the second byte is what rules out overlong forms,
// surrogates and code points beyond U+10FFFF.
LeadByte LookUpLead(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

Part NextPart(absl::string_view bytes) {
  const LeadByte lead = LookUpLead(static_cast<uint8_t>(bytes[0]));
  if (lead.num_bytes == 0) return {Part::Kind::kInvalid, 1};
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    if (i == bytes.size()) return {Part::Kind::kUnfinished, i};
    const uint8_t byte = static_cast<uint8_t>(bytes[i]);
    const bool fits = i == 1
                          ? byte >= lead.second_min && byte <= lead.second_max
                          : byte >= 0x80 && byte <= 0xBF;
    if (!fits) return {Part::Kind::kInvalid, i};
  }
  return {Part::Kind::kWhole, lead.num_bytes};
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(absl::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    // Eight ASCII bytes at once: most text is.
    uint64_t word;
    while (text.size() - pos >= sizeof(word)) {
      std::memcpy(&word, text.data() + pos, sizeof(word));
      if ((word & 0x8080808080808080u) != 0) break;
      pos += sizeof(word);
    }
    if (pos == text.size()) break;
    const Part part = NextPart(text.substr(pos));
    if (part.kind != Part::Kind::kWhole) return pos;
    pos += part.num_bytes;
  }
  return std::nullopt;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto continuation = [code_point](int shift) {
    return static_cast<char>(0x80 | ((code_point >> shift) & 0x3F));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    out.push_back(continuation(0));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code_point >> 12)));
    out.push_back(continuation(6));
    out.push_back(continuation(0));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code_point >> 18)));
    out.push_back(continuation(12));
    out.push_back(continuation(6));
    out.push_back(continuation(0));
  }
}

char32_t CodePointBefore(absl::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80)
    --begin;
  return DecodeUtf8(text.substr(begin, end - begin)).code_point;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t AppendAsText(absl::string_view bytes, bool at_end, std::string& out) {
  size_t pos = 0;
  while (pos < bytes.size()) {
    const Part part = NextPart(bytes.substr(pos));
    if (part.kind == Part::Kind::kUnfinished && !at_end) break;
    const absl::string_view shown = part.kind == Part::Kind::kWhole
                                        ? bytes.substr(pos, part.num_bytes)
                                        : kReplacement;
    out.append(shown.data(), shown.size());
    pos += part.num_bytes;
  }
  return pos;
}

}  // namespace lowmem
