// SPDX-License-Identifier: Apache-2.0
// WeightSource over mappings of the checkpoint's files: leases point into them,
// the kernel brings pages in and takes them out.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/weight_source.h"

namespace lowmem {
namespace {

struct ByteRange {
  uint32_t file_idx;
  uint64_t begin;
  uint64_t end;
};

// Neighbours in a file that lie closer than this are advised as one: what lies
// between is alignment padding or a small tensor, cheaper to read than to skip.
constexpr uint64_t kMergeGapBytes = 64 << 10;

class MmapSource final : public WeightSource {
 public:
  MmapSource(const Checkpoint& checkpoint,
             std::vector<std::unique_ptr<FileMapping>> mappings)
      : checkpoint_(checkpoint),
        mappings_(std::move(mappings)),
        check_is_due_(mappings_.size(), true) {}

  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    const TensorInfo& info = checkpoint_.tensors()[tensor];
    if (check_is_due_[info.file_idx]) {
      LOWMEM_RETURN_IF_ERROR(
          checkpoint_.files()[info.file_idx]->CheckUnchanged());
      check_is_due_[info.file_idx] = false;
    }
    const uint8_t* data = mappings_[info.file_idx]->bytes().data() +
                          info.file_ofs + row_begin * info.row_bytes();
    return WeightLease(this, 0, data, row_begin,
                       std::min(max_rows, info.num_rows() - row_begin));
  }

  bool AllowsManyLeases() const override { return true; }

  void Prefetch(const WeightStep& step) override {
    GatherRanges(step);
    for (const ByteRange& range : ranges_) {
      mappings_[range.file_idx]->Prefetch(range.begin, range.end - range.begin);
      // One look at the file per step: what is mapped cannot fail politely, so
      // a file that was written over is noticed before more of it is used.
      check_is_due_[range.file_idx] = true;
    }
  }

  uint64_t resident_weight_bytes() const override { return 0; }

 private:
  // Sets ranges_ to the bytes of the step's tensors, sorted and merged.
  void GatherRanges(const WeightStep& step) {
    ranges_.clear();
    for (const TensorId id : step.tensors) {
      const TensorInfo& info = checkpoint_.tensors()[id];
      ranges_.push_back(
          {info.file_idx, info.file_ofs, info.file_ofs + info.size_bytes});
    }
    std::sort(ranges_.begin(), ranges_.end(),
              [](const ByteRange& a, const ByteRange& b) {
                return std::pair(a.file_idx, a.begin) <
                       std::pair(b.file_idx, b.begin);
              });
    size_t num_merged = 0;
    for (const ByteRange& range : ranges_) {
      if (num_merged > 0 &&
          ranges_[num_merged - 1].file_idx == range.file_idx &&
          range.begin <= ranges_[num_merged - 1].end + kMergeGapBytes) {
        ranges_[num_merged - 1].end =
            std::max(ranges_[num_merged - 1].end, range.end);
      } else {
        ranges_[num_merged++] = range;
      }
    }
    ranges_.resize(num_merged);
  }

  const Checkpoint& checkpoint_;
  const std::vector<std::unique_ptr<FileMapping>> mappings_;  // as files()
  std::vector<bool> check_is_due_;                            // as files()
  std::vector<ByteRange> ranges_;  // kept to allocate once
};

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> NewMmapSource(
    const Checkpoint& checkpoint) {
  std::vector<std::unique_ptr<FileMapping>> mappings;
  for (const auto& file : checkpoint.files()) {
    LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<FileMapping> mapping, file->Map());
    mappings.push_back(std::move(mapping));
  }
  return std::make_unique<MmapSource>(checkpoint, std::move(mappings));
}

}  // namespace lowmem
