// SPDX-License-Identifier: Apache-2.0
// Reads the header of one safetensors file and proves the whole file by it, in
// bounded memory and without touching a weight. Accepts what the reference
// implementation accepts, but for duplicate names, which it overlooks; every
// rule is listed in storage/README.md. Source: huggingface/safetensors,
// tensor.rs.

#ifndef LOWMEM_STORAGE_SAFETENSORS_READER_H_
#define LOWMEM_STORAGE_SAFETENSORS_READER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/file.h"
#include "storage/tensor_info.h"

namespace lowmem {

// The tensors in file order, each with `file_idx`. `__metadata__` is checked
// and not kept. Memory: about 3 times the header. Errors: kDataLoss naming the
// rule that is broken; kUnimplemented for a dtype of an unknown name, without
// which no size can be proved; kUnavailable.
absl::StatusOr<std::vector<TensorInfo>> ReadSafetensorsHeader(
    const RandomAccessFile& file, uint32_t file_idx);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_SAFETENSORS_READER_H_
