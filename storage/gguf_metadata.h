// SPDX-License-Identifier: Apache-2.0
// The typed key-value store of a GGUF file. Small values are kept; long arrays
// (vocabulary, merges, scores) stay in the file and are walked one element at a
// time, because a tokenizer of 150,000 entries is several megabytes.
// Source: ggml docs/gguf.md, versions 2 and 3.

#ifndef LOWMEM_STORAGE_GGUF_METADATA_H_
#define LOWMEM_STORAGE_GGUF_METADATA_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/file.h"

namespace lowmem {

enum class GgufType : uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// One value. Scalars and strings are held; of an array the element type, count
// and place in the file, which the reader has walked and proved.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  uint64_t integer = 0;  // bit pattern of integers and bool, sign-extended
  double real = 0;
  std::string text;
  GgufType element_type = GgufType::kUint8;
  uint64_t num_elements = 0;
  uint64_t file_ofs = 0;    // of the first element
  uint64_t size_bytes = 0;  // of all elements
};

// Lifetime: the file it was read from must outlive it.
// Thread safety: const methods are safe to call together.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  explicit GgufMetadata(const RandomAccessFile* file) : file_(file) {}
  // Errors: kDataLoss for a key that is there already.
  absl::Status Add(std::string key, GgufValue value);

  const GgufValue* Find(absl::string_view key) const;
  const std::map<std::string, GgufValue, std::less<>>& values() const {
    return values_;
  }

  // nullopt when the key is absent or its value is of another kind; an integer
  // of any width fits as long as its value does.
  std::optional<uint64_t> GetUint(absl::string_view key) const;
  std::optional<double> GetFloat(absl::string_view key) const;
  std::optional<bool> GetBool(absl::string_view key) const;
  const std::string* GetString(absl::string_view key) const;

  // Calls `visit` for each element in order; a status other than OK ends the
  // walk. The text is valid during the call. Errors: kNotFound; kDataLoss when
  // it is no array of that kind; kUnavailable.
  absl::Status ForEachString(
      absl::string_view key,
      absl::FunctionRef<absl::Status(uint64_t idx, absl::string_view text)>
          visit) const;
  // Any integer or bool element type.
  absl::Status ForEachInt(
      absl::string_view key,
      absl::FunctionRef<absl::Status(uint64_t idx, int64_t value)> visit) const;
  // Float32 or float64 elements.
  absl::Status ForEachFloat(
      absl::string_view key,
      absl::FunctionRef<absl::Status(uint64_t idx, double value)> visit) const;

 private:
  const RandomAccessFile* file_ = nullptr;
  std::map<std::string, GgufValue, std::less<>> values_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_GGUF_METADATA_H_
