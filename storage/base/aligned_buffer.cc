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

absl::StatusOr<AlignedBuffer> AlignedBuffer::Allocate(uint64_t size_bytes,
                                                      MemoryAccount& account) {
  AlignedBuffer buffer;
  if (size_bytes == 0) return buffer;
  // Pages are larger than 4096 bytes on some ARM systems.
  const uint64_t page_bytes =
      std::max<uint64_t>(kAlignmentBytes, sysconf(_SC_PAGESIZE));
  const std::optional<uint64_t> mapped_bytes =
      CheckedRoundUp(size_bytes, page_bytes);
  if (!mapped_bytes || *mapped_bytes > std::numeric_limits<size_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        account.name(), ": a buffer of ", FormatBytes(size_bytes),
        " is larger than the address space"));
  }
  LOWMEM_ASSIGN_OR_RETURN(buffer.charge_, account.Reserve(*mapped_bytes));
  void* pages = mmap(nullptr, *mapped_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat(account.name(), ": the system refuses a buffer of ",
                     FormatBytes(size_bytes)));
  }
  buffer.data_ = static_cast<uint8_t*>(pages);
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
