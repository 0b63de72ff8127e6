// SPDX-License-Identifier: Apache-2.0
#include "storage/safetensors_reader.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"
#include "storage/safetensors_header.h"

namespace lowmem {
namespace {

// The header's length, 64-bit little-endian, stands in front of everything.
constexpr uint64_t kLengthBytes = 8;

// The length of the header, which then lies within the file and under the cap.
absl::StatusOr<uint64_t> ReadHeaderLength(const RandomAccessFile& file) {
  if (file.size_bytes() < kLengthBytes) {
    return absl::DataLossError(
        absl::StrCat("the file is too short for a header; expected at least ",
                     kLengthBytes, " bytes, got ", file.size_bytes()));
  }
  std::array<uint8_t, kLengthBytes> bytes;
  LOWMEM_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(bytes)));
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= uint64_t{bytes[i]} << (8 * i);
  }
  if (length > limits::kSafetensorsHeaderBytes) {
    return absl::DataLossError(
        absl::StrCat("the header is too long; expected at most ",
                     limits::kSafetensorsHeaderBytes, " bytes, got ", length));
  }
  if (length > file.size_bytes() - kLengthBytes) {
    return absl::DataLossError(absl::StrCat(
        "the header ends behind the file, which is truncated or no safetensors "
        "file; expected ",
        length, " bytes, got ", file.size_bytes() - kLengthBytes));
  }
  return length;
}

// Bytes that dtype and shape ask for.
absl::StatusOr<uint64_t> EntryBytes(const SafetensorsEntry& entry) {
  const DTypeTraits& traits = TraitsOf(entry.dtype);
  const uint64_t element_bits =
      uint64_t{traits.block_bytes} * 8 / traits.block_elements;
  const std::optional<uint64_t> bits =
      CheckedMul(entry.num_elements, element_bits);
  if (!bits.has_value()) {
    return absl::DataLossError("the size in bits overflows 64 bits");
  }
  if (*bits % 8 != 0) {
    return absl::DataLossError(absl::StrCat(
        "the size is no whole number of bytes; ", entry.num_elements,
        " elements of ", element_bits, " bits"));
  }
  return *bits / 8;
}

// The one proof: sorted by offset, the entries cover the data from its first
// byte to its last, each with exactly the bytes of its shape, no name twice.
absl::Status Validate(const std::vector<SafetensorsEntry>& entries,
                      uint64_t data_bytes) {
  absl::flat_hash_set<absl::string_view> names;
  names.reserve(entries.size());
  uint64_t covered_bytes = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::string where =
        absl::StrCat("tensor ", Printable(entry.name), ": ");
    if (!names.insert(entry.name).second) {
      return absl::DataLossError(
          absl::StrCat(where, "the name stands there twice"));
    }
    if (entry.end_ofs < entry.begin_ofs) {
      return absl::DataLossError(
          absl::StrCat(where, "data_offsets end before they begin; got [",
                       entry.begin_ofs, ", ", entry.end_ofs, "]"));
    }
    if (entry.begin_ofs != covered_bytes) {
      return absl::DataLossError(absl::StrCat(
          where,
          entry.begin_ofs > covered_bytes ? "a hole lies before the data"
                                          : "the data overlap another tensor's",
          "; expected data_offsets to begin at ", covered_bytes, ", got ",
          entry.begin_ofs));
    }
    const absl::StatusOr<uint64_t> size_bytes = EntryBytes(entry);
    if (!size_bytes.ok()) {
      return absl::DataLossError(
          absl::StrCat(where, size_bytes.status().message()));
    }
    if (entry.end_ofs - entry.begin_ofs != *size_bytes) {
      return absl::DataLossError(absl::StrCat(
          where, "data_offsets do not fit dtype and shape; expected ",
          *size_bytes, " bytes, got ", entry.end_ofs - entry.begin_ofs));
    }
    if (entry.end_ofs > data_bytes) {
      return absl::DataLossError(absl::StrCat(
          where, "the data end behind the file, which is truncated; expected ",
          entry.end_ofs, " bytes after the header, got ", data_bytes));
    }
    covered_bytes = entry.end_ofs;
  }
  if (covered_bytes != data_bytes) {
    return absl::DataLossError(
        absl::StrCat("bytes follow the last tensor; expected ", covered_bytes,
                     " after the header, got ", data_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorInfo>> ReadAndValidate(
    const RandomAccessFile& file, uint32_t file_idx) {
  LOWMEM_ASSIGN_OR_RETURN(const uint64_t length, ReadHeaderLength(file));
  const std::unique_ptr<ByteStream> stream =
      NewFileStream(file, kLengthBytes, length);
  SafetensorsHeaderHandler handler;
  const absl::Status parsed = ParseJson(*stream, handler);
  if (!parsed.ok()) {
    if (parsed.code() == absl::StatusCode::kUnavailable) return parsed;
    return absl::Status(parsed.code(),
                        absl::StrCat("header: ", parsed.message()));
  }
  std::vector<SafetensorsEntry>& entries = handler.entries();
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.begin_ofs, a.end_ofs) <
                            std::pair(b.begin_ofs, b.end_ofs);
                   });
  const uint64_t data_ofs = kLengthBytes + length;
  LOWMEM_RETURN_IF_ERROR(Validate(entries, file.size_bytes() - data_ofs));

  std::vector<TensorInfo> tensors;
  tensors.reserve(entries.size());
  for (SafetensorsEntry& entry : entries) {
    TensorInfo& tensor = tensors.emplace_back();
    tensor.name = std::move(entry.name);
    tensor.dtype = entry.dtype;
    tensor.shape = std::move(entry.shape);
    tensor.shape_is_folded = entry.shape_is_folded;
    tensor.file_idx = file_idx;
    tensor.file_ofs = data_ofs + entry.begin_ofs;
    tensor.size_bytes = entry.end_ofs - entry.begin_ofs;
  }
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ReadSafetensorsHeader(
    const RandomAccessFile& file, uint32_t file_idx) {
  absl::StatusOr<std::vector<TensorInfo>> tensors =
      ReadAndValidate(file, file_idx);
  // A failed read names its file already.
  if (!tensors.ok() &&
      tensors.status().code() != absl::StatusCode::kUnavailable) {
    return absl::Status(tensors.status().code(),
                        absl::StrCat(PrintablePath(file.path()), ": ",
                                     tensors.status().message()));
  }
  return tensors;
}

}  // namespace lowmem
