// SPDX-License-Identifier: Apache-2.0
#include "storage/base/utf8.h"

#include <cstdint>

namespace lowmem {
namespace {

// How a sequence is told from its first byte: its length, the bits the first
// byte holds, and the smallest code point that needs this length.
struct Lead {
  size_t num_bytes;
  uint8_t payload_mask;
  char32_t smallest;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0x7F, 0};
  if (byte >= 0xC0 && byte < 0xE0) return {2, 0x1F, 0x80};
  if (byte >= 0xE0 && byte < 0xF0) return {3, 0x0F, 0x800};
  if (byte >= 0xF0 && byte < 0xF8) return {4, 0x07, 0x10000};
  return {0, 0, 0};
}

}  // namespace

Utf8Step DecodeUtf8(absl::string_view text) {
  const uint8_t first = static_cast<uint8_t>(text[0]);
  const Utf8Step invalid = {first, 1, false};
  const Lead lead = LeadOf(first);
  if (lead.num_bytes == 0 || lead.num_bytes > text.size()) return invalid;

  char32_t code_point = first & lead.payload_mask;
  for (size_t i = 1; i < lead.num_bytes; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return invalid;
    code_point = (code_point << 6) | (byte & 0x3F);
  }
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < lead.smallest || code_point > 0x10FFFF || is_surrogate) {
    return invalid;
  }
  return {code_point, lead.num_bytes, true};
}

}  // namespace lowmem
