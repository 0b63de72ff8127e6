// SPDX-License-Identifier: Apache-2.0
#include "storage/base/arena.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

constexpr uint64_t kMaxPlanBytes = ~uint64_t{0} >> 1;

}  // namespace

absl::StatusOr<size_t> ArenaPlan::AddFloats(std::string name,
                                            uint64_t num_floats) {
  // Rounded up one by one, so that the total is where the next buffer begins.
  const std::optional<uint64_t> size_bytes =
      CheckedMul(num_floats, sizeof(float));
  const std::optional<uint64_t> padded_bytes =
      size_bytes ? CheckedRoundUp(*size_bytes, kBufferAlignmentBytes)
                 : std::nullopt;
  if (!padded_bytes || *padded_bytes > kMaxPlanBytes - total_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "arena: ", name, ": the buffers overflow 63 bits; got ", num_floats,
        " floats on top of ", FormatBytes(total_bytes_)));
  }
  buffers_.push_back({std::move(name), total_bytes_, *size_bytes});
  total_bytes_ += *padded_bytes;
  return buffers_.size() - 1;
}

absl::StatusOr<Arena> Arena::Create(const ArenaPlan& plan,
                                    MemoryAccount& account) {
  absl::StatusOr<AlignedBuffer> block =
      AlignedBuffer::Allocate(plan.total_bytes(), account);
  if (!block.ok()) {
    const auto largest = std::max_element(
        plan.buffers().begin(), plan.buffers().end(),
        [](const ArenaPlan::Buffer& a, const ArenaPlan::Buffer& b) {
          return a.size_bytes < b.size_bytes;
        });
    return absl::ResourceExhaustedError(absl::StrCat(
        block.status().message(), "; the largest item is ", largest->name,
        " with ", FormatBytes(largest->size_bytes)));
  }
  Arena arena;
  arena.buffers_ = plan.buffers();
  arena.block_ = *std::move(block);
  return arena;
}

absl::Span<float> Arena::Floats(size_t buffer_idx) {
  const ArenaPlan::Buffer& buffer = buffers_[buffer_idx];
  if (buffer.size_bytes == 0) return {};
  return absl::MakeSpan(
      reinterpret_cast<float*>(block_.data() + buffer.offset_bytes),
      buffer.size_bytes / sizeof(float));
}

}  // namespace lowmem
