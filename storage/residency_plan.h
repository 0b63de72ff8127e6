// SPDX-License-Identifier: Apache-2.0
// Which rows of which tensors stay in memory when not all of them fit, and
// which are read again in every pass. A pure function of sizes: nothing is
// opened, so a forecast and a running source agree by construction.
//
// A pass is a cyclic scan, for which any replacing of what is held loses: the
// resident rows are fixed, and each byte of them saves a byte of every pass.

#ifndef LOWMEM_STORAGE_RESIDENCY_PLAN_H_
#define LOWMEM_STORAGE_RESIDENCY_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/checkpoint.h"

namespace lowmem {

// One use of a tensor, or of a band of its rows, in a pass.
struct TensorUse {
  TensorId tensor = 0;
  uint64_t num_rows = 0;
  uint64_t row_bytes = 0;
  // False for what is too small to be worth a read of its own: norms, biases.
  bool may_stream = false;
  uint64_t row_begin = 0;  // in the tensor, of the num_rows
};

struct ResidencyRequest {
  // In order of use; no band twice.
  std::vector<std::vector<TensorUse>> steps;
  // Of which single rows are used, any of them: an embedding that is not the
  // head too. They get what is left over once nothing streams.
  std::vector<TensorUse> looked_up;
  // For resident rows and the ring together.
  uint64_t available_bytes = 0;
  // What reading takes besides the resident rows, which come through it too.
  uint64_t ring_bytes = 0;
};

// Of the rows of a use the first resident_rows stay, the others are read when
// they are used.
struct TensorPlacement {
  TensorId tensor = 0;
  uint64_t num_rows = 0;
  uint64_t row_bytes = 0;
  uint64_t resident_rows = 0;
  uint64_t row_begin = 0;  // in the tensor, of the num_rows

  uint64_t resident_bytes() const { return resident_rows * row_bytes; }
  uint64_t streamed_rows() const { return num_rows - resident_rows; }
  uint64_t streamed_bytes() const { return streamed_rows() * row_bytes; }
};

struct ResidencyPlan {
  // What each tensor's resident rows are aligned to, a cache line, and so are
  // charged beyond their size.
  static constexpr uint64_t kAlignmentBytes = 64;

  std::vector<std::vector<TensorPlacement>> steps;  // as in the request
  std::vector<TensorPlacement> looked_up;           // as in the request
  uint64_t resident_bytes = 0;  // rows, without their alignment
  uint64_t block_bytes = 0;     // resident rows, aligned, one after the other
  uint64_t ring_bytes = 0;
  uint64_t streamed_bytes_per_pass = 0;  // of the steps
};

// What no plan for the request does without: the rows that may not stream, and
// each tensor's alignment. What reading takes is not included. UINT64_MAX when
// that does not fit 64 bits.
uint64_t LeastResidentBytes(const ResidencyRequest& request);

// Spreads the resident rows evenly: the resident share of the first n steps is,
// for every n, that of all steps to within a row, so that storage and
// computation are busy together all the way. Within a step few large pieces
// stream rather than many small ones, since each piece costs a request and up
// to two blocks of the disk at its ends. What is available is used to within a
// row and the alignment.
// Errors: kResourceExhausted when what may not stream does not fit beside the
// ring, naming both; kInvalidArgument when a band comes twice; kOutOfRange
// when sizes do not fit 63 bits.
absl::StatusOr<ResidencyPlan> PlanResidency(const ResidencyRequest& request);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_RESIDENCY_PLAN_H_
