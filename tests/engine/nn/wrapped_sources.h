// SPDX-License-Identifier: Apache-2.0
// Weight sources that misbehave in one way each and pass everything else on.

#ifndef LOWMEM_TESTS_ENGINE_NN_WRAPPED_SOURCES_H_
#define LOWMEM_TESTS_ENGINE_NN_WRAPPED_SOURCES_H_

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "storage/weight_source.h"

namespace lowmem::testing {

class WrappedSource : public WeightSource {
 public:
  explicit WrappedSource(WeightSource& inner) : inner_(inner) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    return inner_.Acquire(tensor, row_begin, max_rows);
  }
  bool AllowsManyLeases() const override { return inner_.AllowsManyLeases(); }
  void Prefetch(const WeightStep& step) override { inner_.Prefetch(step); }
  void SetCancel(const std::atomic<bool>* cancel) override {
    inner_.SetCancel(cancel);
  }
  uint64_t resident_weight_bytes() const override {
    return inner_.resident_weight_bytes();
  }

 private:
  WeightSource& inner_;
};

// Hands out 1, 2, ... max_rows, 1, ... rows at a time, as a stream may.
class TricklingSource : public WrappedSource {
 public:
  TricklingSource(WeightSource& inner, uint64_t max_rows)
      : WrappedSource(inner), max_rows_(max_rows) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    num_rows_ = num_rows_ % max_rows_ + 1;
    return WrappedSource::Acquire(tensor, row_begin,
                                  std::min(max_rows, num_rows_));
  }

 private:
  const uint64_t max_rows_;
  uint64_t num_rows_ = 0;
};

// Calls `before` with the number of the Acquire, counted from 0, and fails with
// what it returns.
class WatchedSource : public WrappedSource {
 public:
  WatchedSource(WeightSource& inner,
                std::function<absl::Status(uint64_t)> before)
      : WrappedSource(inner), before_(std::move(before)) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    absl::Status status = before_(num_acquired_++);
    if (!status.ok()) return status;
    return WrappedSource::Acquire(tensor, row_begin, max_rows);
  }

 private:
  const std::function<absl::Status(uint64_t)> before_;
  uint64_t num_acquired_ = 0;
};

// One tensor's bytes are all 0xFF, which is NaN in BF16.
class DamagedSource : public WrappedSource {
 public:
  DamagedSource(WeightSource& inner, TensorId tensor, uint64_t size_bytes)
      : WrappedSource(inner), tensor_(tensor), bytes_(size_bytes, 0xFF) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    if (tensor != tensor_) {
      return WrappedSource::Acquire(tensor, row_begin, max_rows);
    }
    return WeightLease(nullptr, 0, bytes_.data(), row_begin, max_rows);
  }

 private:
  const TensorId tensor_;
  const std::vector<uint8_t> bytes_;
};

// Notes in which order tensors were asked for and announced.
class RecordingSource : public WrappedSource {
 public:
  enum class Kind { kPrefetch, kAcquire };
  using Event = std::pair<Kind, TensorId>;  // the first tensor of a step

  RecordingSource(WeightSource& inner, std::vector<Event>& events)
      : WrappedSource(inner), events_(events) {}
  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    events_.emplace_back(Kind::kAcquire, tensor);
    return WrappedSource::Acquire(tensor, row_begin, max_rows);
  }
  void Prefetch(const WeightStep& step) override {
    events_.emplace_back(Kind::kPrefetch, step.tensors.front());
  }

 private:
  std::vector<Event>& events_;
};

}  // namespace lowmem::testing

#endif  // LOWMEM_TESTS_ENGINE_NN_WRAPPED_SOURCES_H_
