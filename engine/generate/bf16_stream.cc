// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/bf16_stream.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "quant/decode.h"
#include "quant/scalar_convert.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

// A multiple of every block; large enough that a read costs nothing beside the
// decoding, small enough for the second-level cache.
constexpr uint64_t kPieceElements = 64 << 10;

}  // namespace

BF16Stream::BF16Stream(ProgressRef progress)
    : progress_(progress), decoded_(kPieceElements), rounded_(kPieceElements) {}

absl::Status BF16Stream::Write(const Checkpoint& checkpoint, TensorId source,
                               uint32_t num_permuted_heads,
                               SafetensorsWriter& writer) {
  const TensorInfo& tensor = checkpoint.tensors()[source];
  const RandomAccessFile& file = *checkpoint.files()[tensor.file_idx];
  const uint64_t num_elements = tensor.num_rows() * tensor.num_cols();
  if (num_permuted_heads == 0) {
    return WriteElements(file, tensor.dtype, tensor.file_ofs, num_elements,
                         writer);
  }
  const bool is_vector = tensor.shape.size() == 1;
  const uint64_t num_rows = is_vector ? num_elements : tensor.num_rows();
  const uint64_t row_elements = is_vector ? 1 : tensor.num_cols();
  const std::optional<uint64_t> row_bytes =
      RowBytes(tensor.dtype, row_elements);
  if (!row_bytes.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("tensor ", Printable(tensor.name),
                     ": its rows cannot be put in order in the dtype ",
                     TraitsOf(tensor.dtype).name));
  }
  const uint64_t head_rows = num_rows / num_permuted_heads;
  const uint64_t half = head_rows / 2;
  for (uint64_t row = 0; row < num_rows; ++row) {
    const uint64_t in_head = row % head_rows;
    const uint64_t source_row =
        row - in_head + 2 * (in_head % half) + in_head / half;
    LOWMEM_RETURN_IF_ERROR(WriteElements(
        file, tensor.dtype, tensor.file_ofs + source_row * *row_bytes,
        row_elements, writer));
  }
  return absl::OkStatus();
}

absl::Status BF16Stream::WriteElements(const RandomAccessFile& file,
                                       DType dtype, uint64_t file_ofs,
                                       uint64_t num_elements,
                                       SafetensorsWriter& writer) {
  const bool is_kept = dtype == DType::kBF16 || !TraitsOf(dtype).decodable;
  while (num_elements > 0) {
    const size_t count = std::min(num_elements, kPieceElements);
    // A whole number of blocks: the piece is, and so is the tensor or row.
    const DTypeTraits& traits = TraitsOf(dtype);
    stored_.resize(count / traits.block_elements * traits.block_bytes);
    LOWMEM_RETURN_IF_ERROR(file.Read(file_ofs, absl::MakeSpan(stored_)));
    absl::Span<const uint8_t> out = stored_;
    if (!is_kept) {
      DecodeRow(dtype, stored_.data(), count, decoded_.data());
      for (size_t i = 0; i < count; ++i) rounded_[i] = F32ToBF16(decoded_[i]);
      // Little-endian, as the host: scalar_convert.h asserts it.
      out = {reinterpret_cast<const uint8_t*>(rounded_.data()),
             count * sizeof(uint16_t)};
    }
    LOWMEM_RETURN_IF_ERROR(writer.Append(out));
    done_bytes_ += out.size();
    LOWMEM_RETURN_IF_ERROR(progress_(done_bytes_));
    file_ofs += stored_.size();
    num_elements -= count;
  }
  return absl::OkStatus();
}

}  // namespace lowmem
