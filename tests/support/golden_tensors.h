// SPDX-License-Identifier: Apache-2.0
// Reads the project's own golden safetensors files for tests. It trusts them,
// and shares no code with the reader under test.

#ifndef LOWMEM_TESTS_SUPPORT_GOLDEN_TENSORS_H_
#define LOWMEM_TESTS_SUPPORT_GOLDEN_TENSORS_H_

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace lowmem::testing {

class GoldenTensors {
 public:
  // Empty when the file cannot be read.
  explicit GoldenTensors(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    uint64_t header_bytes = 0;
    if (bytes_.size() < sizeof(header_bytes)) return;
    std::memcpy(&header_bytes, bytes_.data(), sizeof(header_bytes));
    header_ = bytes_.substr(sizeof(header_bytes), header_bytes);
    first_byte_ = sizeof(header_bytes) + header_bytes;
  }

  bool empty() const { return header_.empty(); }

  // The bytes of a tensor; empty when there is none of that name.
  std::string Bytes(const std::string& name) const {
    const size_t entry = header_.find("\"" + name + "\":");
    if (entry == std::string::npos) return "";
    const std::string key = "\"data_offsets\":[";
    size_t pos = header_.find(key, entry) + key.size();
    size_t used = 0;
    const size_t begin = std::stoul(header_.substr(pos), &used);
    const size_t end = std::stoul(header_.substr(pos + used + 1));
    return bytes_.substr(first_byte_ + begin, end - begin);
  }

  // An F32 tensor, flat.
  std::vector<float> Floats(const std::string& name) const {
    const std::string bytes = Bytes(name);
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!values.empty()) {
      std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    }
    return values;
  }

 private:
  std::string bytes_;
  std::string header_;
  size_t first_byte_ = 0;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_GOLDEN_TENSORS_H_
