// SPDX-License-Identifier: Apache-2.0
// WeightSource over one block of heap that holds the tensors in the file's
// dtype: charged as a whole before the first byte is read, filled with pread.

#include <algorithm>
#include <limits>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/aligned_buffer.h"
#include "storage/base/checked_math.h"
#include "storage/base/printable.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/folder.h"
#include "storage/posix_huge_pages.h"
#include "storage/weight_source.h"

namespace lowmem {
namespace {

// One read: large enough for the disk's full speed, small enough that a
// cancelled load ends within milliseconds.
constexpr uint64_t kReadBytes = 8 * kMiB;
// Where the page cache is to hold little of it at any moment.
constexpr uint64_t kBoundedReadBytes = kMiB;
// Of each tensor in the block: a cache line, and the widest vector load.
constexpr uint64_t kTensorAlignmentBytes = 64;
constexpr uint64_t kNotLoaded = std::numeric_limits<uint64_t>::max();

using ProgressRef =
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>;

class CopySource final : public WeightSource {
 public:
  CopySource(const Checkpoint& checkpoint, const CopySourceOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        block_ofs_(checkpoint.tensors().size(), kNotLoaded) {}

  absl::Status Load(absl::Span<const TensorId> tensors, MemoryAccount& account,
                    ProgressRef progress) {
    std::vector<TensorId> in_file_order(tensors.begin(), tensors.end());
    std::sort(in_file_order.begin(), in_file_order.end(),
              [this](TensorId a, TensorId b) { return Place(a) < Place(b); });
    in_file_order.erase(std::unique(in_file_order.begin(), in_file_order.end()),
                        in_file_order.end());
    LOWMEM_RETURN_IF_ERROR(PlaceInBlock(in_file_order, account));
    return Fill(in_file_order, progress);
  }

  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    const TensorInfo& info = checkpoint_.tensors()[tensor];
    if (block_ofs_[tensor] == kNotLoaded) {
      return absl::InternalError(
          absl::StrCat("tensor ", Printable(info.name),
                       ": used but not among those loaded"));
    }
    return WeightLease(
        this, 0,
        block_.data() + block_ofs_[tensor] + row_begin * info.row_bytes(),
        row_begin, std::min(max_rows, info.num_rows() - row_begin));
  }

  bool AllowsManyLeases() const override { return true; }

  void Prefetch(const WeightStep&) override {}
  uint64_t resident_weight_bytes() const override { return weight_bytes_; }

 private:
  // What tensors are sorted by; the id tells zero-sized neighbours apart.
  std::tuple<uint32_t, uint64_t, TensorId> Place(TensorId id) const {
    const TensorInfo& info = checkpoint_.tensors()[id];
    return {info.file_idx, info.file_ofs, id};
  }

  absl::Status PlaceInBlock(const std::vector<TensorId>& tensors,
                            MemoryAccount& account) {
    uint64_t block_bytes = 0;
    for (const TensorId id : tensors) {
      const uint64_t size_bytes = checkpoint_.tensors()[id].size_bytes;
      block_ofs_[id] = block_bytes;
      // Ranges of real files: the sum stays far below 2^64 unless files are
      // sparse.
      const std::optional<uint64_t> padded =
          CheckedRoundUp(size_bytes, kTensorAlignmentBytes);
      const std::optional<uint64_t> sum =
          padded.has_value() ? CheckedAdd(block_bytes, *padded) : std::nullopt;
      if (!sum.has_value()) {
        return absl::ResourceExhaustedError(
            absl::StrCat(PrintablePath(checkpoint_.path()),
                         ": the weights exceed 2^64 bytes"));
      }
      block_bytes = *sum;
      weight_bytes_ += size_bytes;
    }
    LOWMEM_ASSIGN_OR_RETURN(block_,
                            AlignedBuffer::Allocate(block_bytes, account));
    AdviseHugePages(block_.data(), block_.size_bytes());
    return absl::OkStatus();
  }

  absl::Status Fill(const std::vector<TensorId>& tensors,
                    ProgressRef progress) {
    const uint64_t piece_bytes =
        options_.drop_behind ? kBoundedReadBytes : kReadBytes;
    uint64_t done_bytes = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo& info = checkpoint_.tensors()[tensors[i]];
      const RandomAccessFile& file = *checkpoint_.files()[info.file_idx];
      uint8_t* const to = block_.data() + block_ofs_[tensors[i]];
      for (uint64_t ofs = 0; ofs < info.size_bytes;) {
        const uint64_t count = std::min(piece_bytes, info.size_bytes - ofs);
        // The kernel's own read-ahead is 128 KiB; this keeps the disk busy
        // while the piece before is copied.
        file.Prefetch(info.file_ofs + ofs, count + piece_bytes);
        LOWMEM_RETURN_IF_ERROR(
            file.Read(info.file_ofs + ofs, absl::MakeSpan(to + ofs, count)));
        // From the beginning: what is cached in larger pieces than these does
        // not leave the cache in parts.
        if (options_.drop_behind) {
          file.DropCache(0, info.file_ofs + ofs + count);
        }
        ofs += count;
        done_bytes += count;
        LOWMEM_RETURN_IF_ERROR(progress(done_bytes, weight_bytes_));
      }
      const bool is_last_of_file =
          i + 1 == tensors.size() ||
          checkpoint_.tensors()[tensors[i + 1]].file_idx != info.file_idx;
      if (!is_last_of_file) continue;
      // Old and new bytes of a file that was written meanwhile would mix.
      LOWMEM_RETURN_IF_ERROR(file.CheckUnchanged());
      // Pages that two reads share, and what the kernel read ahead.
      if (options_.drop_behind) file.DropCache(0, file.size_bytes());
    }
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  const CopySourceOptions options_;
  AlignedBuffer block_;
  std::vector<uint64_t> block_ofs_;  // by TensorId
  uint64_t weight_bytes_ = 0;
};

}  // namespace

uint64_t CopySourceBytes(const Checkpoint& checkpoint,
                         absl::Span<const TensorId> tensors) {
  std::optional<uint64_t> sum = 0;
  for (const TensorId id : tensors) {
    const std::optional<uint64_t> padded = CheckedRoundUp(
        checkpoint.tensors()[id].size_bytes, kTensorAlignmentBytes);
    sum = sum && padded ? CheckedAdd(*sum, *padded) : std::nullopt;
  }
  if (sum) sum = CheckedRoundUp(*sum, AlignedBuffer::kAlignmentBytes);
  return sum.value_or(std::numeric_limits<uint64_t>::max());
}

absl::StatusOr<std::unique_ptr<WeightSource>> NewCopySource(
    const Checkpoint& checkpoint, absl::Span<const TensorId> tensors,
    const CopySourceOptions& options, MemoryAccount& account,
    ProgressRef progress) {
  auto source = std::make_unique<CopySource>(checkpoint, options);
  LOWMEM_RETURN_IF_ERROR(source->Load(tensors, account, progress));
  return source;
}

}  // namespace lowmem
