// SPDX-License-Identifier: Apache-2.0
// Writes GGUF files, sound ones and broken ones: every count, length, type and
// offset can be stated otherwise than it is.

#ifndef LOWMEM_TESTS_SUPPORT_GGUF_BUILDER_H_
#define LOWMEM_TESTS_SUPPORT_GGUF_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lowmem::testing {

// The bytes of a number, little-endian.
template <typename T>
std::string Raw(T value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// A string as GGUF stores it, its length stated as `stated_bytes` if given.
inline std::string RawString(const std::string& text,
                             std::optional<uint64_t> stated_bytes = {}) {
  return Raw<uint64_t>(stated_bytes.value_or(text.size())) + text;
}

class GgufBuilder {
 public:
  // Value types and tensor types by their ids in the format.
  enum ValueType : uint32_t {
    kU8,
    kI8,
    kU16,
    kI16,
    kU32,
    kI32,
    kF32,
    kBool,
    kString,
    kArray,
    kU64,
    kI64,
    kF64,
  };
  static constexpr uint32_t kTensorF32 = 0;
  static constexpr uint32_t kTensorQ4_0 = 2;

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t alignment = 32;  // used for padding; written only by Key()
  std::optional<uint64_t> stated_num_keys;
  std::optional<uint64_t> stated_num_tensors;
  std::string tail;  // behind everything

  // A key whose value bytes are given as they are.
  GgufBuilder& Key(const std::string& key, uint32_t type,
                   const std::string& value) {
    return RawKey(RawString(key) + Raw(type) + value);
  }
  GgufBuilder& RawKey(const std::string& bytes) {
    keys_ += bytes;
    ++num_keys_;
    return *this;
  }
  GgufBuilder& Text(const std::string& key, const std::string& text) {
    return Key(key, kString, RawString(text));
  }
  GgufBuilder& Uint32(const std::string& key, uint32_t value) {
    return Key(key, kU32, Raw(value));
  }
  // An array whose element bytes are given as they are.
  GgufBuilder& Array(const std::string& key, uint32_t element_type,
                     uint64_t stated_count, const std::string& elements) {
    return Key(key, kArray, Raw(element_type) + Raw(stated_count) + elements);
  }

  // A tensor of `num_bytes` bytes placed behind the last one; dims innermost
  // first.
  GgufBuilder& Tensor(const std::string& name,
                      const std::vector<uint64_t>& dims, uint32_t type,
                      uint64_t num_bytes) {
    const uint64_t ofs = Padded(data_.size());
    data_.resize(ofs);
    data_ += std::string(num_bytes, '\x11');
    return TensorAt(name, dims, type, ofs);
  }
  // A table entry alone.
  GgufBuilder& TensorAt(const std::string& name,
                        const std::vector<uint64_t>& dims, uint32_t type,
                        uint64_t ofs) {
    std::string entry =
        RawString(name) + Raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) entry += Raw(dim);
    return RawTensor(entry + Raw(type) + Raw(ofs));
  }
  GgufBuilder& RawTensor(const std::string& entry) {
    tensors_ += entry;
    ++num_tensors_;
    return *this;
  }
  // More bytes of the data section.
  GgufBuilder& Bytes(uint64_t num_bytes) {
    data_ += std::string(num_bytes, '\x22');
    return *this;
  }
  GgufBuilder& Tail(std::string bytes) {
    tail = std::move(bytes);
    return *this;
  }

  std::string Build() const {
    std::string file =
        magic + Raw(version) + Raw(stated_num_tensors.value_or(num_tensors_)) +
        Raw(stated_num_keys.value_or(num_keys_)) + keys_ + tensors_;
    if (!data_.empty()) file.resize(Padded(file.size()));
    return file + data_ + tail;
  }

 private:
  uint64_t Padded(uint64_t size) const {
    return (size + alignment - 1) / alignment * alignment;
  }

  std::string keys_;
  std::string tensors_;
  std::string data_;
  uint64_t num_keys_ = 0;
  uint64_t num_tensors_ = 0;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_SUPPORT_GGUF_BUILDER_H_
