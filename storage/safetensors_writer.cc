// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors_writer.h"

#include <array>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/json_writer.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

// The data begin at a multiple of this, so that a mapping of the file has
// aligned float32 rows; the reference writer does the same.
constexpr size_t kHeaderAlignmentBytes = 8;

absl::Status Refuse(const std::string& path, const TensorSpec& tensor,
                    absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      PrintablePath(path), ": tensor ", Printable(tensor.name), ": ", what));
}

struct Header {
  std::string json;
  std::vector<uint64_t> tensor_begins = {0};  // in the data; last, its end
};

absl::StatusOr<Header> MakeHeader(const std::string& path,
                                  const std::vector<TensorSpec>& tensors,
                                  const SafetensorsWriter::Metadata& metadata) {
  Header header;
  JsonWriter json;
  json.BeginObject();
  if (!metadata.empty()) {
    json.Key("__metadata__").BeginObject();
    for (const auto& [key, value] : metadata) json.Key(key).String(value);
    json.EndObject();
  }
  absl::flat_hash_set<absl::string_view> names = {"__metadata__"};
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return Refuse(path, tensor, "the name is taken");
    }
    const absl::string_view dtype = TraitsOf(tensor.dtype).name;
    if (DTypeFromSafetensors(dtype) != tensor.dtype) {
      return Refuse(path, tensor,
                    absl::StrCat("safetensors has no dtype ", dtype));
    }
    const std::optional<uint64_t> size_bytes = TensorBytes(tensor);
    const uint64_t begin_ofs = header.tensor_begins.back();
    const std::optional<uint64_t> end_ofs =
        size_bytes.has_value() ? CheckedAdd(begin_ofs, *size_bytes)
                               : std::nullopt;
    if (!end_ofs.has_value()) {
      return Refuse(path, tensor,
                    "the size overflows or is no whole number of bytes");
    }
    json.Key(tensor.name).BeginObject().Key("dtype").String(dtype);
    json.Key("shape").BeginArray();
    for (const uint64_t dimension : tensor.shape) json.Uint(dimension);
    json.EndArray().Key("data_offsets").BeginArray();
    json.Uint(begin_ofs).Uint(*end_ofs).EndArray().EndObject();
    header.tensor_begins.push_back(*end_ofs);
  }
  json.EndObject();
  header.json = json.TakeText();
  header.json.resize((header.json.size() + kHeaderAlignmentBytes - 1) /
                         kHeaderAlignmentBytes * kHeaderAlignmentBytes,
                     ' ');
  if (header.json.size() > limits::kSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        PrintablePath(path), ": the header is too long; expected at most ",
        limits::kSafetensorsHeaderBytes, " bytes, got ", header.json.size()));
  }
  return header;
}

}  // namespace

std::optional<uint64_t> TensorBytes(const TensorSpec& tensor) {
  uint64_t num_elements = 1;
  for (const uint64_t dimension : tensor.shape) {
    const std::optional<uint64_t> product = CheckedMul(num_elements, dimension);
    if (!product.has_value()) return std::nullopt;
    num_elements = *product;
  }
  return RowBytes(tensor.dtype, num_elements);
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<TensorSpec>& tensors,
    const Metadata& metadata) {
  LOWMEM_ASSIGN_OR_RETURN(Header header, MakeHeader(path, tensors, metadata));
  LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> file,
                          AtomicFile::Create(path));
  std::array<uint8_t, 8> length;
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<uint8_t>(uint64_t{header.json.size()} >> (8 * i));
  }
  LOWMEM_RETURN_IF_ERROR(file->Append(length));
  LOWMEM_RETURN_IF_ERROR(file->Append(header.json));
  for (uint64_t& begin : header.tensor_begins) {
    begin += length.size() + header.json.size();
  }
  return std::unique_ptr<SafetensorsWriter>(
      new SafetensorsWriter(std::move(file), std::move(header.tensor_begins)));
}

absl::Status SafetensorsWriter::Append(absl::Span<const uint8_t> bytes) {
  if (bytes.size() > left_bytes_) {
    return absl::InternalError("more bytes written than the tensors have");
  }
  left_bytes_ -= bytes.size();
  return file_->Append(bytes);
}

absl::Status SafetensorsWriter::WriteAt(size_t tensor_idx, uint64_t ofs,
                                        absl::Span<const uint8_t> bytes) {
  if (tensor_idx + 1 >= tensor_begins_.size() ||
      !RangeFits(ofs, bytes.size(),
                 tensor_begins_[tensor_idx + 1] - tensor_begins_[tensor_idx]) ||
      bytes.size() > left_bytes_) {
    return absl::InternalError("bytes written that the tensor does not have");
  }
  left_bytes_ -= bytes.size();
  return file_->WriteAt(tensor_begins_[tensor_idx] + ofs, bytes);
}

absl::Status SafetensorsWriter::Commit() {
  if (left_bytes_ > 0) {
    return absl::InternalError(
        absl::StrCat(left_bytes_, " bytes of the tensors were not written"));
  }
  return file_->Commit();
}

}  // namespace lowmem
