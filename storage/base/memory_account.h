// SPDX-License-Identifier: Apache-2.0
// Who holds how many bytes. Accounts form a tree: what is charged to one counts
// against every limit up to the root, so that a promise about the whole process
// can be kept and each part of it named in a report or refusal.

#ifndef LOWMEM_STORAGE_BASE_MEMORY_ACCOUNT_H_
#define LOWMEM_STORAGE_BASE_MEMORY_ACCOUNT_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lowmem {

class MemoryAccount;

// Bytes held in an account; gives them back when destroyed. Movable.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept;
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  ~MemoryCharge();
  uint64_t num_bytes() const { return num_bytes_; }
  // Takes over what `more` holds. REQUIRES: it is empty, or of the same account
  // as this one, or this one is empty.
  void Add(MemoryCharge more);

 private:
  friend class MemoryAccount;
  MemoryCharge(MemoryAccount* account, uint64_t num_bytes)
      : account_(account), num_bytes_(num_bytes) {}
  MemoryAccount* account_ = nullptr;
  uint64_t num_bytes_ = 0;
};

// Thread safety: thread-safe.
// Lifetime: outlives its children and the charges made to it.
class MemoryAccount {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  // `parent` may be nullptr: this is the root.
  MemoryAccount(std::string name, uint64_t limit_bytes, MemoryAccount* parent);
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Holds `num_bytes` for as long as the charge lives.
  // Errors: kResourceExhausted naming the account whose limit is in the way,
  // what was asked, what it holds and what it may hold.
  absl::StatusOr<MemoryCharge> Reserve(uint64_t num_bytes);
  // The same where there may be no account: nothing is held then.
  static absl::StatusOr<MemoryCharge> ReserveIn(MemoryAccount* account,
                                                uint64_t num_bytes);

  absl::string_view name() const { return name_; }
  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const {
    return used_bytes_.load(std::memory_order_relaxed);
  }
  uint64_t peak_bytes() const {
    return peak_bytes_.load(std::memory_order_relaxed);
  }

 private:
  friend class MemoryCharge;
  bool TryAdd(uint64_t num_bytes);
  void Release(uint64_t num_bytes);
  void RecordPeak();

  const std::string name_;
  const uint64_t limit_bytes_;
  MemoryAccount* const parent_;
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> peak_bytes_{0};
};

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_BASE_MEMORY_ACCOUNT_H_
