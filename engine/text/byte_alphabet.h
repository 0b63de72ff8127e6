// SPDX-License-Identifier: Apache-2.0
// The alphabet of byte-level vocabularies: each byte written as one printable
// character, so that pieces of bytes can be kept as text.
// Source: GPT-2's bytes_to_unicode; part of the format, never change.

#ifndef LOWMEM_ENGINE_TEXT_BYTE_ALPHABET_H_
#define LOWMEM_ENGINE_TEXT_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem {

// The character that stands for `byte`: itself where Latin-1 prints it, else
// U+0100 and up in the order of the bytes that need one.
char32_t CharOfByte(uint8_t byte);

// The byte that `code_point` stands for.
std::optional<uint8_t> ByteOfChar(char32_t code_point);

// Appends `bytes` written in the alphabet.
void AppendInAlphabet(absl::string_view bytes, std::string& out);

// Appends the bytes that `text` stands for; `text` itself when any of its
// characters is outside the alphabet (added tokens are plain text).
void AppendBytesOf(absl::string_view text, std::string& out);

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_TEXT_BYTE_ALPHABET_H_
