// SPDX-License-Identifier: Apache-2.0
#include "storage/base/memory_account.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/base/units.h"

namespace lowmem {

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : account_(std::exchange(other.account_, nullptr)),
      num_bytes_(std::exchange(other.num_bytes_, 0)) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  MemoryCharge taken(std::move(other));  // what this held goes back with it
  std::swap(account_, taken.account_);
  std::swap(num_bytes_, taken.num_bytes_);
  return *this;
}

void MemoryCharge::Add(MemoryCharge more) {
  if (account_ == nullptr) account_ = more.account_;
  num_bytes_ += std::exchange(more.num_bytes_, 0);
}

MemoryCharge::~MemoryCharge() {
  for (MemoryAccount* a = account_; a != nullptr; a = a->parent_) {
    a->Release(num_bytes_);
  }
}

MemoryAccount::MemoryAccount(std::string name, uint64_t limit_bytes,
                             MemoryAccount* parent)
    : name_(std::move(name)), limit_bytes_(limit_bytes), parent_(parent) {}

absl::StatusOr<MemoryCharge> MemoryAccount::Reserve(uint64_t num_bytes) {
  for (MemoryAccount* a = this; a != nullptr; a = a->parent_) {
    if (a->TryAdd(num_bytes)) continue;
    const uint64_t used_bytes = a->used_bytes();
    for (MemoryAccount* b = this; b != a; b = b->parent_) b->Release(num_bytes);
    return absl::ResourceExhaustedError(absl::StrCat(
        a->name_, ": does not fit the memory limit; expected at most ",
        FormatBytes(a->limit_bytes_), ", got ", FormatBytes(num_bytes),
        a == this ? "" : absl::StrCat(" for ", name_), " on top of ",
        FormatBytes(used_bytes)));
  }
  for (MemoryAccount* a = this; a != nullptr; a = a->parent_) a->RecordPeak();
  return MemoryCharge(this, num_bytes);
}

absl::StatusOr<MemoryCharge> MemoryAccount::ReserveIn(MemoryAccount* account,
                                                      uint64_t num_bytes) {
  if (account == nullptr) return MemoryCharge();
  return account->Reserve(num_bytes);
}

bool MemoryAccount::TryAdd(uint64_t num_bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (num_bytes > limit_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + num_bytes,
                                              std::memory_order_relaxed));
  return true;
}

void MemoryAccount::Release(uint64_t num_bytes) {
  used_bytes_.fetch_sub(num_bytes, std::memory_order_relaxed);
}

void MemoryAccount::RecordPeak() {
  const uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < used && !peak_bytes_.compare_exchange_weak(
                            peak, used, std::memory_order_relaxed)) {
  }
}

}  // namespace lowmem
