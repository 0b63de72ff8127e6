// SPDX-License-Identifier: Apache-2.0
#include "storage/read_rate.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/status_macros.h"
#include "storage/folder.h"

namespace lowmem {
namespace {

using Clock = std::chrono::steady_clock;

uint32_t LargestFile(const Checkpoint& checkpoint) {
  const auto& files = checkpoint.files();
  const auto largest = std::max_element(
      files.begin(), files.end(), [](const auto& a, const auto& b) {
        return a->size_bytes() < b->size_bytes();
      });
  return static_cast<uint32_t>(largest - files.begin());
}

}  // namespace

absl::StatusOr<ReadRate> MeasureReadRate(const Checkpoint& checkpoint,
                                         const ReadRateOptions& options,
                                         MemoryAccount& account) {
  const StreamRingShape& ring = options.ring;
  const uint32_t num_slots = ring.num_buffers;
  LOWMEM_ASSIGN_OR_RETURN(AlignedBuffer memory,
                          AlignedBuffer::AllocateContiguous(
                              num_slots * ring.buffer_bytes, 0, account));
  const uint32_t file_idx = LargestFile(checkpoint);
  const uint64_t file_bytes = checkpoint.files()[file_idx]->size_bytes();
  const uint64_t num_bytes = std::min(file_bytes, options.max_bytes);
  if (num_bytes == 0) {
    return absl::DataLossError(absl::StrCat(PrintablePath(checkpoint.path()),
                                            ": the files are empty"));
  }
  LOWMEM_ASSIGN_OR_RETURN(
      const std::unique_ptr<ReadQueue> queue,
      OpenReadQueue(checkpoint,
                    {.method = options.method,
                     .num_slots = num_slots,
                     .may_try_buffered = options.may_try_buffered},
                    {memory.data(), memory.size_bytes()}));

  uint64_t started_bytes = 0;
  uint64_t read_bytes = 0;
  const Clock::time_point begin = Clock::now();
  double seconds = 0;
  for (uint64_t i = 0; read_bytes < num_bytes && seconds < options.max_seconds;
       ++i) {
    for (uint64_t k = started_bytes / ring.buffer_bytes;
         k < i + num_slots && started_bytes < num_bytes; ++k) {
      const auto slot = static_cast<uint32_t>(k % num_slots);
      const uint64_t piece_bytes =
          std::min(ring.buffer_bytes, num_bytes - started_bytes);
      queue->Start(slot, {.file_idx = file_idx,
                          .file_ofs = started_bytes,
                          .num_bytes = piece_bytes,
                          .to = memory.data() + slot * ring.buffer_bytes});
      started_bytes += piece_bytes;
    }
    queue->Submit();
    LOWMEM_RETURN_IF_ERROR(queue->Wait(static_cast<uint32_t>(i % num_slots)));
    read_bytes = std::min(num_bytes, (i + 1) * ring.buffer_bytes);
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  // Less than a stretch was read: all there is says it as well as it can.
  return ReadRate{queue->measured_bytes_per_s().value_or(
                      static_cast<double>(read_bytes) / seconds),
                  queue->description()};
}

}  // namespace lowmem
