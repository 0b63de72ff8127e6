// SPDX-License-Identifier: Apache-2.0
#include "storage/base/aligned_buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {

namespace {

// Of x86-64, and of ARM with pages of 4096 bytes. Where they are larger, the
// hint is of no use and does no harm.
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// MADV_COLLAPSE of Linux 6.1, which headers of C libraries have only lately.
constexpr int kCollapse = 25;

// Pages are larger than 4096 bytes on some ARM systems.
uint64_t PageBytes() {
  return std::max<uint64_t>(AlignedBuffer::kAlignmentBytes,
                            sysconf(_SC_PAGESIZE));
}

// nullptr when the system refuses.
uint8_t* MapPages(uint64_t num_bytes) {
  void* const pages = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : static_cast<uint8_t*>(pages);
}

absl::Status Refusal(const MemoryAccount& account, uint64_t size_bytes,
                     absl::string_view why) {
  return absl::ResourceExhaustedError(absl::StrCat(
      account.name(), ": ", why, " a buffer of ", FormatBytes(size_bytes)));
}

// Backs [begin, end) with huge pages. `begin` lies at the border of one, and up
// to the next border behind `end` is mapped, too.
void TouchAsHugePages(uint8_t* begin, uint8_t* end) {
#ifdef MADV_HUGEPAGE
  const auto length = static_cast<uint64_t>(end - begin);
  madvise(begin, CheckedRoundUp(length, kHugePageBytes).value_or(length),
          MADV_HUGEPAGE);
  for (uint8_t* page = begin; page < end; page += kHugePageBytes) *page = 0;
  // Where the system gave a single page because memory lies in pieces, or gives
  // huge ones to nobody by itself. Older systems refuse it.
  madvise(begin, CheckedRoundUp(length, kHugePageBytes).value_or(length),
          kCollapse);
#ifdef MADV_COLD
  // Makes single pages of the last huge page, still neighbours, so that those
  // behind `end` can be given back; a whole one would be held until memory is
  // short. Linux takes away pages of zeros when it does so, hence the ones.
  const uint64_t tail_bytes = length % kHugePageBytes;
  if (tail_bytes > 0) {
    uint8_t* const tail = end - tail_bytes;
    constexpr uint64_t kStep = AlignedBuffer::kAlignmentBytes;
    for (uint64_t i = 0; i < tail_bytes; i += kStep) tail[i] = 1;
    madvise(tail, tail_bytes, MADV_COLD);
    for (uint64_t i = 0; i < tail_bytes; i += kStep) tail[i] = 0;
  }
#endif
#else
  static_cast<void>(begin);
  static_cast<void>(end);
#endif
}

}  // namespace

absl::StatusOr<AlignedBuffer> AlignedBuffer::Allocate(uint64_t size_bytes,
                                                      MemoryAccount& account) {
  AlignedBuffer buffer;
  if (size_bytes == 0) return buffer;
  const std::optional<uint64_t> mapped_bytes =
      CheckedRoundUp(size_bytes, PageBytes());
  if (!mapped_bytes || *mapped_bytes > std::numeric_limits<size_t>::max()) {
    return Refusal(account, size_bytes, "the address space is too small for");
  }
  LOWMEM_ASSIGN_OR_RETURN(buffer.charge_, account.Reserve(*mapped_bytes));
  buffer.data_ = MapPages(*mapped_bytes);
  if (buffer.data_ == nullptr) {
    return Refusal(account, size_bytes, "the system refuses");
  }
  buffer.size_bytes_ = size_bytes;
  buffer.mapped_bytes_ = *mapped_bytes;
  return buffer;
}

absl::StatusOr<AlignedBuffer> AlignedBuffer::AllocateContiguous(
    uint64_t size_bytes, uint64_t head_bytes, MemoryAccount& account) {
  const uint64_t page_bytes = PageBytes();
  const std::optional<uint64_t> mapped_bytes =
      CheckedRoundUp(size_bytes, page_bytes);
  const std::optional<uint64_t> reserved_bytes =
      mapped_bytes ? CheckedAdd(*mapped_bytes, 2 * kHugePageBytes)
                   : std::nullopt;
  // Without a border of pages where the head ends there is none of huge ones.
  if (size_bytes == 0 || head_bytes % page_bytes != 0 || !reserved_bytes ||
      *reserved_bytes > std::numeric_limits<size_t>::max()) {
    return Allocate(size_bytes, account);
  }
  AlignedBuffer buffer;
  LOWMEM_ASSIGN_OR_RETURN(buffer.charge_, account.Reserve(*mapped_bytes));
  // Room to place the border in, and for the rest of the last huge page.
  uint8_t* const reserved = MapPages(*reserved_bytes);
  if (reserved == nullptr) {
    return Refusal(account, size_bytes, "the system refuses");
  }
  const uint64_t border = (reinterpret_cast<uintptr_t>(reserved) + head_bytes +
                           kHugePageBytes - 1) /
                          kHugePageBytes * kHugePageBytes;
  uint8_t* const data = reinterpret_cast<uint8_t*>(border - head_bytes);
  uint8_t* const end = data + *mapped_bytes;
  uint8_t* const contiguous = data + head_bytes;
  const uint64_t tail_bytes = (*mapped_bytes - head_bytes) % kHugePageBytes;
  {
    const auto moment = tail_bytes == 0
                            ? absl::StatusOr<MemoryCharge>(MemoryCharge())
                            : account.Reserve(kHugePageBytes - tail_bytes);
    TouchAsHugePages(contiguous, moment.ok() ? end : end - tail_bytes);
    // What lies around goes back, while it is still charged.
    if (data > reserved) munmap(reserved, data - reserved);
    uint8_t* const reserved_end = reserved + *reserved_bytes;
    if (reserved_end > end) munmap(end, reserved_end - end);
  }
  buffer.data_ = data;
  buffer.size_bytes_ = size_bytes;
  buffer.mapped_bytes_ = *mapped_bytes;
  return buffer;
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)),
      charge_(std::move(other.charge_)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  AlignedBuffer taken(std::move(other));  // what this owned goes with it
  std::swap(data_, taken.data_);
  std::swap(size_bytes_, taken.size_bytes_);
  std::swap(mapped_bytes_, taken.mapped_bytes_);
  std::swap(charge_, taken.charge_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
}

}  // namespace lowmem
