// SPDX-License-Identifier: Apache-2.0
// What the handler of SIGBUS knows: which address ranges are mapped models, and
// which of them lost pages. The public face is lowmem/sigbus_guard.h.
//
// The way of libwayland's wl_shm: a fault inside a registered range gets
// anonymous zero pages mapped over the rest of it, is noted, and the
// instruction goes on. The computation ends with garbage and its owner must ask
// lost().

#ifndef LOWMEM_ENGINE_GENERATE_POSIX_SIGBUS_GUARD_H_
#define LOWMEM_ENGINE_GENERATE_POSIX_SIGBUS_GUARD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace lowmem {

// Ranges that the handler may repair. Registered whether the handler is
// installed or not. Movable; unregisters when destroyed. Thread safety: Add and
// the destructor one thread at a time; lost() from any. Lifetime: destroyed
// before the mapping is unmapped.
class GuardedRanges {
 public:
  GuardedRanges() = default;
  GuardedRanges(GuardedRanges&& other) noexcept
      : slots_(std::exchange(other.slots_, {})) {}
  GuardedRanges& operator=(GuardedRanges&& other) noexcept;
  ~GuardedRanges();

  // `bytes` begins at a page. A process has room for kMaxRanges; beyond them a
  // range is not guarded.
  static constexpr size_t kMaxRanges = 4096;
  void Add(absl::Span<const uint8_t> bytes);

  // Whether a page of any of the ranges was replaced.
  bool lost() const;

 private:
  std::vector<size_t> slots_;
};

}  // namespace lowmem

#endif  // LOWMEM_ENGINE_GENERATE_POSIX_SIGBUS_GUARD_H_
