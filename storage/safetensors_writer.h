// SPDX-License-Identifier: Apache-2.0
// Writes one safetensors file in bounded memory: sizes are known beforehand,
// bytes are appended in order or put where they belong, and the file appears
// under its name when it is complete.

#ifndef LOWMEM_STORAGE_SAFETENSORS_WRITER_H_
#define LOWMEM_STORAGE_SAFETENSORS_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/dtype.h"
#include "storage/file.h"

namespace lowmem {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;  // outermost first
};

// Bytes of the tensor, or nullopt when they overflow or are no whole number.
std::optional<uint64_t> TensorBytes(const TensorSpec& tensor);

// Thread safety: one thread at a time.
// Memory: the header, twice while it is made; 8 bytes a tensor; 64 KiB of
// buffer.
class SafetensorsWriter {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // transformers refuses a file whose metadata does not name its framework.
  static Metadata TransformersMetadata() { return {{"format", "pt"}}; }

  // Data lie in the order of `tensors`; the header is padded so that they begin
  // at a multiple of 8. Errors: kInvalidArgument for a name that is there
  // twice, a dtype that safetensors does not have, a size that overflows or a
  // header over the format's limit; those of AtomicFile::Create.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      const std::string& path, const std::vector<TensorSpec>& tensors,
      const Metadata& metadata);

  // The next bytes of the data, little-endian, of any length.
  // Errors: kUnavailable; kInternal for more bytes than the tensors have.
  absl::Status Append(absl::Span<const uint8_t> bytes);

  // Bytes of tensor `tensor_idx` from byte `ofs` of it on, in any order.
  // REQUIRES: no byte is written twice, and none is appended. Errors:
  // kUnavailable; kInternal for bytes that the tensor does not have.
  absl::Status WriteAt(size_t tensor_idx, uint64_t ofs,
                       absl::Span<const uint8_t> bytes);

  // Errors: kUnavailable; kInternal for fewer bytes than the tensors have.
  absl::Status Commit();

 private:
  SafetensorsWriter(std::unique_ptr<AtomicFile> file,
                    std::vector<uint64_t> tensor_begins)
      : file_(std::move(file)),
        tensor_begins_(std::move(tensor_begins)),
        left_bytes_(tensor_begins_.back() - tensor_begins_.front()) {}

  std::unique_ptr<AtomicFile> file_;
  const std::vector<uint64_t> tensor_begins_;  // in the file; last, its end
  uint64_t left_bytes_;
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_SAFETENSORS_WRITER_H_
