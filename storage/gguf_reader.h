// SPDX-License-Identifier: Apache-2.0
// Reads the head of a GGUF file (versions 2 and 3, little-endian): metadata and
// tensor table, proved as a whole before anything is returned. What it refuses
// is listed in storage/README.md.

#ifndef LOWMEM_STORAGE_GGUF_READER_H_
#define LOWMEM_STORAGE_GGUF_READER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "storage/file.h"
#include "storage/gguf_metadata.h"
#include "storage/tensor_info.h"

namespace lowmem {

struct GgufHead {
  uint32_t version = 0;
  GgufMetadata metadata;
  // In file order; file_idx is 0. Names and shapes as in the file, the shape
  // turned to outermost first.
  std::vector<TensorInfo> tensors;
};

// Lifetime: `file` must outlive the result.
// Memory: the result, about 4 bytes for each byte of the tensor table, and 32
// KiB. Errors: kDataLoss for a damaged file; kUnimplemented for another
// version, a big-endian file, an unknown tensor type, an array of arrays or one
// file of a split model; kUnavailable.
absl::StatusOr<GgufHead> ReadGgufHead(const RandomAccessFile& file);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_GGUF_READER_H_
