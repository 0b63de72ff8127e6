// SPDX-License-Identifier: Apache-2.0
// Safetensors files as tests make them: any header, right or wrong, and any
// data.

#ifndef LOWMEM_TESTS_SUPPORT_SAFETENSORS_BYTES_H_
#define LOWMEM_TESTS_SUPPORT_SAFETENSORS_BYTES_H_

#include <cstdint>
#include <string>

namespace lowmem::testing {

inline std::string LittleEndian64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// Length, header and data.
inline std::string SafetensorsBytes(const std::string& header,
                                    const std::string& data) {
  return LittleEndian64(header.size()) + header + data;
}

// `count` bytes that differ from one another.
inline std::string Pattern(size_t count, int seed = 0) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>((i * 131 + i / 251 + seed * 17) & 0xff);
  }
  return bytes;
}

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_SAFETENSORS_BYTES_H_
