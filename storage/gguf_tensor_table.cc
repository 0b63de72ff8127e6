// SPDX-License-Identifier: Apache-2.0
#include "storage/gguf_tensor_table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/limits.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

std::string TensorPart(absl::string_view name) {
  return absl::StrCat("tensor \"", Printable(name), "\"");
}

absl::Status Damaged(const RandomAccessFile& file, const TensorInfo& tensor,
                     absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ", TensorPart(tensor.name), ": ", what));
}

// Dimensions, innermost first in the file, into `shape`, outermost first.
absl::Status ReadShape(GgufCursor& cursor, std::vector<uint64_t>* shape) {
  uint32_t rank = 0;
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&rank));
  if (rank > limits::kTensorRank) {
    return cursor.Damaged(absl::StrCat("too many dimensions; expected at most ",
                                       limits::kTensorRank, ", got ", rank));
  }
  shape->resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    uint64_t& dim = (*shape)[rank - 1 - i];
    LOWMEM_RETURN_IF_ERROR(cursor.Read(&dim));
    // Nothing that is computed with has no elements, and every user of a row
    // count or a row length would have to mind the division.
    if (dim == 0) {
      return cursor.Damaged(absl::StrCat("dimension ", i, " is zero"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDType(GgufCursor& cursor, DType* dtype) {
  uint32_t id = 0;
  LOWMEM_RETURN_IF_ERROR(cursor.Read(&id));
  const std::optional<DType> known = DTypeFromGguf(id);
  if (!known.has_value()) {
    return cursor.Unsupported(
        absl::StrCat("unknown tensor type; expected a ggml type id that is "
                     "supported, got ",
                     id));
  }
  *dtype = *known;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> TensorBytes(const GgufCursor& cursor,
                                     const TensorInfo& tensor) {
  const std::optional<uint64_t> row_bytes =
      RowBytes(tensor.dtype, tensor.num_cols());
  if (!row_bytes.has_value()) {
    const DTypeTraits& traits = TraitsOf(tensor.dtype);
    if (tensor.num_cols() % traits.block_elements != 0) {
      return cursor.Damaged(
          absl::StrCat("row is no whole number of ", traits.name,
                       " blocks; expected a multiple of ",
                       traits.block_elements, ", got ", tensor.num_cols()));
    }
    return cursor.Damaged("size overflows 64 bits");
  }
  std::optional<uint64_t> elements = tensor.num_cols();
  std::optional<uint64_t> bytes = row_bytes;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    if (bytes.has_value()) bytes = CheckedMul(*bytes, tensor.shape[i]);
    if (elements.has_value()) elements = CheckedMul(*elements, tensor.shape[i]);
  }
  // Types of less than a byte have more elements than bytes.
  if (!bytes.has_value() || !elements.has_value()) {
    return cursor.Damaged("size overflows 64 bits");
  }
  return *bytes;
}

absl::Status ProveNamesUnique(const RandomAccessFile& file,
                              const std::vector<TensorInfo>& tensors,
                              std::vector<uint32_t>& order) {
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return tensors[a].name < tensors[b].name;
  });
  for (size_t i = 1; i < order.size(); ++i) {
    if (tensors[order[i]].name == tensors[order[i - 1]].name) {
      return Damaged(file, tensors[order[i]], "occurs twice");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ReadGgufTensorTable(
    GgufCursor& cursor, uint64_t num_tensors) {
  std::vector<TensorInfo> tensors;
  tensors.reserve(static_cast<size_t>(num_tensors));
  for (uint64_t i = 0; i < num_tensors; ++i) {
    TensorInfo& tensor = tensors.emplace_back();
    cursor.set_part(absl::StrCat("tensor ", i));
    LOWMEM_RETURN_IF_ERROR(
        cursor.ReadName("the name", limits::kTensorNameBytes, &tensor.name));
    cursor.set_part(TensorPart(tensor.name));
    LOWMEM_RETURN_IF_ERROR(ReadShape(cursor, &tensor.shape));
    LOWMEM_RETURN_IF_ERROR(ReadDType(cursor, &tensor.dtype));
    LOWMEM_RETURN_IF_ERROR(cursor.Read(&tensor.file_ofs));
    LOWMEM_ASSIGN_OR_RETURN(tensor.size_bytes, TensorBytes(cursor, tensor));
  }
  return tensors;
}

absl::Status PlaceGgufTensors(const RandomAccessFile& file, uint64_t data_ofs,
                              uint64_t alignment,
                              std::vector<TensorInfo>* tensors) {
  std::vector<uint32_t> order(tensors->size());
  std::iota(order.begin(), order.end(), 0u);
  LOWMEM_RETURN_IF_ERROR(ProveNamesUnique(file, *tensors, order));

  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return (*tensors)[a].file_ofs < (*tensors)[b].file_ofs;
  });
  // Without tensors a file may end before the padding.
  const uint64_t size = file.size_bytes();
  const uint64_t data_bytes = size < data_ofs ? 0 : size - data_ofs;
  uint64_t end = 0;  // of the tensors before, relative to the data section
  for (const uint32_t idx : order) {
    TensorInfo& tensor = (*tensors)[idx];
    const uint64_t ofs = tensor.file_ofs;
    if (ofs % alignment != 0) {
      return Damaged(file, tensor,
                     absl::StrCat("offset is not aligned; expected a multiple "
                                  "of ",
                                  alignment, ", got ", ofs));
    }
    if (!RangeFits(ofs, tensor.size_bytes, data_bytes)) {
      return Damaged(
          file, tensor,
          absl::StrCat("lies beyond the end of the file; expected ",
                       tensor.size_bytes, " bytes at ", ofs,
                       " of the data section, got a section of ", data_bytes));
    }
    if (ofs < end) {
      return Damaged(file, tensor,
                     absl::StrCat("overlaps another tensor; expected an offset "
                                  "of at least ",
                                  end, ", got ", ofs));
    }
    // Bytes that belong to nothing are how one file becomes two (a polyglot).
    if (ofs - end >= alignment) {
      return Damaged(
          file, tensor,
          absl::StrCat("a hole lies before it; expected at most ",
                       alignment - 1, " bytes of padding, got ", ofs - end));
    }
    end = ofs + tensor.size_bytes;
    tensor.file_ofs = data_ofs + ofs;
  }
  if (data_bytes - end >= alignment) {
    return absl::DataLossError(
        absl::StrCat(file.path(),
                     ": data section: bytes follow the last tensor; expected "
                     "at most ",
                     alignment - 1, " of padding, got ", data_bytes - end));
  }
  return absl::OkStatus();
}

}  // namespace lowmem
