// SPDX-License-Identifier: Apache-2.0
#include "engine/text/byte_alphabet.h"

#include <array>

#include "engine/text/utf8_text.h"
#include "storage/base/utf8.h"

namespace lowmem {
namespace {

constexpr bool PrintsItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

constexpr char32_t kFirstSubstitute = 0x100;
constexpr size_t kNumChars = 0x144;  // the last substitute is U+0143

struct Alphabet {
  std::array<char16_t, 256> char_of_byte{};
  std::array<int16_t, kNumChars> byte_of_char{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte_of_char) byte = -1;
  char16_t substitute = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t c =
        PrintsItself(byte) ? static_cast<char16_t>(byte) : substitute++;
    alphabet.char_of_byte[byte] = c;
    alphabet.byte_of_char[c] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t CharOfByte(uint8_t byte) { return kAlphabet.char_of_byte[byte]; }

std::optional<uint8_t> ByteOfChar(char32_t code_point) {
  if (code_point >= kNumChars) return std::nullopt;
  const int16_t byte = kAlphabet.byte_of_char[code_point];
  if (byte < 0) return std::nullopt;
  return static_cast<uint8_t>(byte);
}

void AppendInAlphabet(absl::string_view bytes, std::string& out) {
  for (const char byte : bytes) {
    AppendUtf8(CharOfByte(static_cast<uint8_t>(byte)), out);
  }
}

void AppendBytesOf(absl::string_view text, std::string& out) {
  const size_t old_size = out.size();
  for (absl::string_view rest = text; !rest.empty();) {
    const Utf8Step step = DecodeUtf8(rest);
    const std::optional<uint8_t> byte =
        step.ok ? ByteOfChar(step.code_point) : std::nullopt;
    if (!byte.has_value()) {
      out.resize(old_size);
      out.append(text.data(), text.size());
      return;
    }
    out.push_back(static_cast<char>(*byte));
    rest.remove_prefix(step.num_bytes);
  }
}

}  // namespace lowmem
