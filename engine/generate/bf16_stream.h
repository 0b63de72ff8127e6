// SPDX-License-Identifier: Apache-2.0
// A tensor of any dtype, read piece by piece, decoded exactly, rounded to BF16
// and appended to a safetensors file.

#ifndef LOWMEM_ENGINE_GENERATE_BF16_STREAM_H_
#define LOWMEM_ENGINE_GENERATE_BF16_STREAM_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "storage/checkpoint.h"
#include "storage/safetensors_writer.h"

namespace lowmem {

// Thread safety: one thread at a time. Lifetime: the callback must outlive it.
// Memory: 10 bytes for each of 64 Ki elements.
class BF16Stream {
 public:
  using ProgressRef = absl::FunctionRef<absl::Status(uint64_t done_bytes)>;

  // `progress` is called after each piece with the bytes appended so far, over
  // all tensors; a status other than OK ends the work with it.
  explicit BF16Stream(ProgressRef progress);

  // Appends all of `source`. Integers and BF16 itself go through bit for bit,
  // NaN payloads included. With `num_permuted_heads` above 0, row i of a head
  // of d rows is row 2 * (i % (d/2)) + i / (d/2) of the source's head; a vector
  // has one element a row. REQUIRES: the dtype is decodable or an integer; the
  // rows are a multiple of twice the heads. Errors: kUnavailable;
  // kUnimplemented when a permuted row is no whole number of blocks; the
  // callback's.
  absl::Status Write(const Checkpoint& checkpoint, TensorId source,
                     uint32_t num_permuted_heads, SafetensorsWriter& writer);

 private:
  absl::Status WriteElements(const RandomAccessFile& file, DType dtype,
                             uint64_t file_ofs, uint64_t num_elements,
                             SafetensorsWriter& writer);

  const ProgressRef progress_;
  uint64_t done_bytes_ = 0;
  std::vector<uint8_t> stored_;
  std::vector<float> decoded_;
  std::vector<uint16_t> rounded_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_BF16_STREAM_H_
