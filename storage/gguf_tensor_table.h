// SPDX-License-Identifier: Apache-2.0
// The tensor table of a GGUF file: read entry by entry, then proved as a whole
// against the file.

#ifndef LOWMEM_STORAGE_GGUF_TENSOR_TABLE_H_
#define LOWMEM_STORAGE_GGUF_TENSOR_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/file.h"
#include "storage/gguf_cursor.h"
#include "storage/tensor_info.h"

namespace lowmem {

// Reads `num_tensors` entries at the cursor. Each is consistent in itself;
// `file_ofs` is still relative to the data section.
// REQUIRES: num_tensors is bounded by what the file has bytes for.
// Errors: kDataLoss; kUnimplemented for an unknown tensor type; kUnavailable.
absl::StatusOr<std::vector<TensorInfo>> ReadGgufTensorTable(
    GgufCursor& cursor, uint64_t num_tensors);

// Proves that names are unique and that the tensors fill the data section,
// which begins at `data_ofs`, in some order without overlap or gap but for the
// padding to `alignment`; then makes `file_ofs` count from the start of the
// file. Errors: kDataLoss.
absl::Status PlaceGgufTensors(const RandomAccessFile& file, uint64_t data_ofs,
                              uint64_t alignment,
                              std::vector<TensorInfo>* tensors);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_GGUF_TENSOR_TABLE_H_
