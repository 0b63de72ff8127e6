// SPDX-License-Identifier: Apache-2.0
// How weights reach the computation. The modes differ only behind this
// interface: the model asks for rows of a tensor, holds a lease while it
// computes with them, and says beforehand which tensors come next.

#ifndef LOWMEM_STORAGE_WEIGHT_SOURCE_H_
#define LOWMEM_STORAGE_WEIGHT_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "storage/base/memory_account.h"
#include "storage/checkpoint.h"

namespace lowmem {

// Tensors that are used together, in order of use. One layer, or the head.
struct WeightStep {
  std::vector<TensorId> tensors;
};

class WeightSource;

// The right to read some rows of one tensor. Movable; destroying it ends the
// right. Thread safety: the bytes may be read from any thread while the lease
// lives.
class WeightLease {
 public:
  WeightLease() = default;
  WeightLease(WeightSource* source, uint64_t token, const uint8_t* data,
              uint64_t row_begin, uint64_t num_rows)
      : source_(source),
        token_(token),
        data_(data),
        row_begin_(row_begin),
        num_rows_(num_rows) {}
  WeightLease(WeightLease&& other) noexcept { *this = std::move(other); }
  WeightLease& operator=(WeightLease&& other) noexcept;
  ~WeightLease();

  // First byte of row row_begin(); rows follow one another without gaps. No
  // alignment.
  const uint8_t* data() const { return data_; }
  uint64_t row_begin() const { return row_begin_; }
  uint64_t num_rows() const { return num_rows_; }

 private:
  WeightSource* source_ = nullptr;
  uint64_t token_ = 0;
  const uint8_t* data_ = nullptr;
  uint64_t row_begin_ = 0;
  uint64_t num_rows_ = 0;
};

// Thread safety: one thread at a time (the one that runs the layers). Leases
// may be read by others. Lifetime: the checkpoint must outlive the source, the
// source its leases.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Rows from `row_begin` on: at least one, at most `max_rows`, as many as are
  // at hand in one piece. A source that holds the whole tensor gives all of
  // them; one that streams gives what has arrived, so callers go on until they
  // have all. REQUIRES: row_begin < num_rows of the tensor, max_rows > 0.
  // Errors: kUnavailable when the file cannot be read or has changed;
  // kCancelled.
  virtual absl::StatusOr<WeightLease> Acquire(TensorId tensor,
                                              uint64_t row_begin,
                                              uint64_t max_rows) = 0;

  // Whether rows of several tensors may be leased together, and none of them
  // are waited for but by the processor that reads them.
  virtual bool AllowsManyLeases() const { return false; }

  // The tensors of `step` are used next. May start reading; never waits.
  virtual void Prefetch(const WeightStep& step) = 0;

  // While *cancel is true, Acquire may end with kCancelled instead of waiting
  // for a disk; nothing is lost, the same call goes on later. nullptr: it
  // waits. Lifetime: the flag outlives the source, or is taken back before.
  virtual void SetCancel(const std::atomic<bool>* cancel) {
    static_cast<void>(cancel);
  }

  // Weight bytes that stay in memory for as long as the source does: in heap,
  // or mapped where memory is bounded.
  virtual uint64_t resident_weight_bytes() const = 0;

 protected:
  friend class WeightLease;
  // Called once for each lease that ends.
  virtual void Release(uint64_t token) { static_cast<void>(token); }
};

inline WeightLease& WeightLease::operator=(WeightLease&& other) noexcept {
  if (this == &other) return *this;
  if (source_ != nullptr) source_->Release(token_);
  source_ = std::exchange(other.source_, nullptr);
  token_ = other.token_;
  data_ = other.data_;
  row_begin_ = other.row_begin_;
  num_rows_ = other.num_rows_;
  return *this;
}

inline WeightLease::~WeightLease() {
  if (source_ != nullptr) source_->Release(token_);
}

// Leases point into a mapping of the file; what stays in memory is the kernel's
// business. Errors: those of RandomAccessFile::Map.
absl::StatusOr<std::unique_ptr<WeightSource>> NewMmapSource(
    const Checkpoint& checkpoint);

// Reads the named tensors into heap, in the file's dtype, in file order.
// `progress` is called now and then with the bytes read so far and in all; when
// it returns a status other than OK, loading ends with it. Errors:
// kResourceExhausted when `account` refuses; kUnavailable.
struct CopySourceOptions {
  // Gives back the page cache that reading leaves, so that a container does not
  // count the model twice. Without it the next load is served from memory.
  bool drop_behind = false;
};
// Bytes of heap that it will take: each tensor padded, whole pages in all.
// UINT64_MAX when that does not fit 64 bits.
uint64_t CopySourceBytes(const Checkpoint& checkpoint,
                         absl::Span<const TensorId> tensors);
absl::StatusOr<std::unique_ptr<WeightSource>> NewCopySource(
    const Checkpoint& checkpoint, absl::Span<const TensorId> tensors,
    const CopySourceOptions& options, MemoryAccount& account,
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>
        progress);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_WEIGHT_SOURCE_H_
