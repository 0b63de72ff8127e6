// SPDX-License-Identifier: Apache-2.0
// Where one tensor of a checkpoint lies.

#ifndef LOWMEM_STORAGE_TENSOR_INFO_H_
#define LOWMEM_STORAGE_TENSOR_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/dtype.h"

namespace lowmem {

// A proved entry: the byte range lies within its file and its length is that of
// the shape. The offset has no alignment; never cast it to a wider pointer.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  // Outermost dimension first, as Hugging Face writes it: a matrix is
  // [num_rows, num_cols] with contiguous rows. GGUF's order is turned round.
  std::vector<uint64_t> shape;
  // More than limits::kTensorRank dimensions: the last entry of `shape` is the
  // product of the rest, so that a header cannot ask for unbounded memory.
  bool shape_is_folded = false;
  uint32_t file_idx = 0;  // in Checkpoint::files()
  uint64_t file_ofs = 0;  // from the start of that file
  uint64_t size_bytes = 0;

  // A vector counts as one row; a scalar as one row of one element. Dimensions
  // beyond the second are folded into the rows.
  uint64_t num_cols() const { return shape.empty() ? 1 : shape.back(); }
  uint64_t num_rows() const {
    uint64_t rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    return rows;
  }
  // REQUIRES: num_rows() > 0.
  uint64_t row_bytes() const { return size_bytes / num_rows(); }
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_TENSOR_INFO_H_
