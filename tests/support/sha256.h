// SPDX-License-Identifier: Apache-2.0
// SHA-256 of bytes, as golden files state it. Source: FIPS 180-4.

#ifndef LOWMEM_TESTS_SUPPORT_SHA256_H_
#define LOWMEM_TESTS_SUPPORT_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lowmem::testing {

class Sha256 {
 public:
  void Update(const uint8_t* bytes, size_t count);

  // In lower-case hexadecimal digits. Ends the use of the object.
  std::string Finish();

 private:
  void Compress();

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                    0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_ = {};
  size_t used_ = 0;
  uint64_t num_bytes_ = 0;
};

std::string Sha256Hex(const std::string& bytes);

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_SHA256_H_
