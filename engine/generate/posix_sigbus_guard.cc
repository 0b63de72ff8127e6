// SPDX-License-Identifier: Apache-2.0
#include "engine/generate/posix_sigbus_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "lowmem/sigbus_guard.h"

namespace lowmem {
namespace {

// Everything the handler touches is here, lock-free and never freed.
struct Slot {
  std::atomic<uintptr_t> begin{0};  // 0: free, or not yet complete
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> taken{false};
  std::atomic<bool> lost{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

Slot slots[GuardedRanges::kMaxRanges];
std::atomic<size_t> num_slots_ever_taken{0};
uintptr_t page_bytes = 4096;
struct sigaction previous_action;

// Puts zero pages over [page of address, end of its range). What the disk lost
// behind the fault is lost too, and one call is enough for a truncated file.
bool Repair(uintptr_t address) {
  const size_t num_slots = num_slots_ever_taken.load(std::memory_order_acquire);
  for (size_t i = 0; i < num_slots; ++i) {
    const uintptr_t begin = slots[i].begin.load(std::memory_order_acquire);
    const uintptr_t end = slots[i].end.load(std::memory_order_relaxed);
    if (begin == 0 || address < begin || address >= end) continue;
    const uintptr_t page = address & ~(page_bytes - 1);
    const void* mapped =
        mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (mapped == MAP_FAILED) return false;
    slots[i].lost.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

void OnSigbus(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  // A code above 0 is the kernel's: a fault. Else somebody sent the signal.
  const bool repaired =
      info->si_code > 0 && Repair(reinterpret_cast<uintptr_t>(info->si_addr));
  errno = saved_errno;
  if (repaired) return;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler == SIG_DFL) {
    // The default action, as if we had never been there.
    sigaction(SIGBUS, &previous_action, nullptr);
    raise(SIGBUS);
  } else if (previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
  }
}

}  // namespace

GuardedRanges& GuardedRanges::operator=(GuardedRanges&& other) noexcept {
  if (this != &other) {
    GuardedRanges ended(std::move(*this));
    slots_ = std::exchange(other.slots_, {});
  }
  return *this;
}

GuardedRanges::~GuardedRanges() {
  for (size_t slot_idx : slots_) {
    slots[slot_idx].begin.store(0, std::memory_order_release);
    slots[slot_idx].taken.store(false, std::memory_order_release);
  }
}

void GuardedRanges::Add(absl::Span<const uint8_t> bytes) {
  for (size_t i = 0; i < kMaxRanges; ++i) {
    bool free = false;
    if (!slots[i].taken.compare_exchange_strong(free, true)) continue;
    slots_.push_back(i);
    slots[i].lost.store(false, std::memory_order_relaxed);
    const uintptr_t begin = reinterpret_cast<uintptr_t>(bytes.data());
    slots[i].end.store(begin + bytes.size(), std::memory_order_relaxed);
    slots[i].begin.store(begin, std::memory_order_release);
    size_t num_slots = num_slots_ever_taken.load();
    while (num_slots < i + 1 &&
           !num_slots_ever_taken.compare_exchange_weak(num_slots, i + 1)) {
    }
    return;
  }
}

bool GuardedRanges::lost() const {
  for (size_t slot_idx : slots_) {
    if (slots[slot_idx].lost.load(std::memory_order_acquire)) return true;
  }
  return false;
}

absl::Status InstallSigbusGuard() {
  static std::mutex mutex;
  static bool installed = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (installed) return absl::OkStatus();
  page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnSigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGBUS, nullptr, &previous_action) != 0 ||
      sigaction(SIGBUS, &action, nullptr) != 0) {
    return absl::InternalError("SIGBUS: no handler could be installed");
  }
  installed = true;
  return absl::OkStatus();
}

}  // namespace lowmem
