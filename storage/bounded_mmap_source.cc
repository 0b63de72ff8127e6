// SPDX-License-Identifier: Apache-2.0
#include "storage/bounded_mmap_source.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/held_pages.h"
#include "storage/mapped_plan.h"
#include "storage/mapped_window.h"
#include "storage/page_runs.h"
#include "storage/planned_rows.h"
#include "storage/stream_order.h"

namespace lowmem {
namespace {

using ProgressRef =
    absl::FunctionRef<absl::Status(uint64_t done_bytes, uint64_t total_bytes)>;

// Loading: how much is waited for at once, small enough that a cancelled load
// ends within milliseconds, and how much is asked of the disk beyond it.
constexpr uint64_t kLoadPieceBytes = kMiB;
constexpr uint64_t kLoadAheadBytes = 8 * kMiB;

class WindowedMmapSource final : public BoundedMmapSource {
 public:
  WindowedMmapSource(const Checkpoint& checkpoint, PlannedRows rows)
      : checkpoint_(checkpoint),
        rows_(std::move(rows)),
        check_is_due_(checkpoint.files().size(), false) {}
  ~WindowedMmapSource() override {
    window_.reset();
    // Pages that are mapped stay in the cache.
    mappings_.clear();
    for (const auto& file : checkpoint_.files()) {
      file->DropCache(0, file->size_bytes());
    }
  }

  absl::Status Open(const ResidencyPlan& plan, uint64_t window_bytes,
                    MemoryAccount& account, ProgressRef progress) {
    const uint64_t least_bytes =
        SmallestWindowBytes(MaxRowBytes(plan), PageBytes());
    if (window_bytes < least_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "mmap: window; expected at least ", FormatBytes(least_bytes),
          " for the largest row, got ", FormatBytes(window_bytes)));
    }
    LOWMEM_ASSIGN_OR_RETURN(
        charge_,
        account.Reserve(
            FootprintOfMapped(checkpoint_, plan, window_bytes).total_bytes()));
    std::vector<MappedFile> files;
    for (const auto& file : checkpoint_.files()) {
      LOWMEM_ASSIGN_OR_RETURN(std::unique_ptr<FileMapping> mapping,
                              file->Map());
      mapping->AdviseSinglePages();
      // What headers and earlier runs left: besides being too much, it may be
      // cached in pieces larger than pages, which leave the cache as a whole or
      // not at all.
      file->DropCache(0, file->size_bytes());
      files.push_back({file.get(), mapping.get()});
      mappings_.push_back(std::move(mapping));
    }
    resident_ = ResidentPages(checkpoint_, plan);
    resident_weight_bytes_ = plan.resident_bytes;
    window_.emplace(files, StreamedRanges(checkpoint_, plan), resident_,
                    window_bytes);
    LOWMEM_RETURN_IF_ERROR(LoadResident(files, progress));
    window_->FetchAhead();
    return absl::OkStatus();
  }

  absl::StatusOr<WeightLease> Acquire(TensorId tensor, uint64_t row_begin,
                                      uint64_t max_rows) override {
    LOWMEM_ASSIGN_OR_RETURN(const RowBand band, rows_.Find(tensor, row_begin));
    const TensorInfo& info = checkpoint_.tensors()[tensor];
    if (check_is_due_[info.file_idx]) {
      LOWMEM_RETURN_IF_ERROR(
          checkpoint_.files()[info.file_idx]->CheckUnchanged());
      check_is_due_[info.file_idx] = false;
    }
    const uint8_t* const data = mappings_[info.file_idx]->bytes().data() +
                                info.file_ofs + row_begin * info.row_bytes();
    if (row_begin < band.resident_end || info.row_bytes() == 0) {
      return WeightLease(
          this, kResidentLease, data, row_begin,
          std::min(max_rows, (row_begin < band.resident_end ? band.resident_end
                                                            : band.row_end) -
                                 row_begin));
    }
    const bool is_streamed =
        band.range_idx &&
        (max_rows > 1 || window_->IsNext(*band.range_idx, row_begin));
    if (!is_streamed) {
      LOWMEM_RETURN_IF_ERROR(LookUp(tensor, row_begin));
      return WeightLease(this, kLookupLease, data, row_begin, 1);
    }
    if (is_streamed_leased_) {
      return absl::InternalError(
          "mmap: rows asked for while others are leased");
    }
    absl::StatusOr<uint64_t> num_rows =
        window_->Take(*band.range_idx, row_begin, max_rows);
    LOWMEM_RETURN_IF_ERROR(Explain(num_rows.status(), info.file_idx));
    is_streamed_leased_ = true;
    return WeightLease(this, kStreamedLease, data, row_begin, *num_rows);
  }

  // What comes next is on the way already; this is when to look whether the
  // files are the same, and when to see that a pass leaves out a step, such as
  // the head.
  void Prefetch(const WeightStep& step) override {
    for (const TensorId tensor : step.tensors) {
      check_is_due_[checkpoint_.tensors()[tensor].file_idx] = true;
    }
    const std::optional<PlannedRows::LeftOut> left_out = rows_.Announce(step);
    if (left_out) window_->LeaveOut(left_out->from_idx, left_out->to_idx);
  }
  uint64_t resident_weight_bytes() const override {
    return resident_weight_bytes_;
  }
  uint64_t streamed_bytes() const override {
    return window_->held().fetched_bytes();
  }

 private:
  enum LeaseKind : uint64_t { kResidentLease, kStreamedLease, kLookupLease };

  void Release(uint64_t token) override {
    if (token == kStreamedLease) {
      is_streamed_leased_ = false;
      window_->GiveBack();
    } else if (token == kLookupLease) {
      window_->held().DropAround(*looked_up_);
      looked_up_.reset();
    }
  }

  // A page that cannot be had: that the file changed says more.
  absl::Status Explain(absl::Status status, uint32_t file_idx) const {
    if (status.ok()) return status;
    LOWMEM_RETURN_IF_ERROR(checkpoint_.files()[file_idx]->CheckUnchanged());
    return status;
  }

  absl::Status LookUp(TensorId tensor, uint64_t row) {
    if (looked_up_) {
      return absl::InternalError(
          "mmap: a row looked up while another is leased");
    }
    const PageRun run = PagesOfRows(
        RangeOfRows(checkpoint_.tensors()[tensor], tensor, row, row + 1), row,
        row + 1, PageBytes());
    LOWMEM_RETURN_IF_ERROR(Explain(window_->held().LookUp(run), run.file_idx));
    looked_up_ = run;
    return absl::OkStatus();
  }

  absl::Status LoadResident(const std::vector<MappedFile>& files,
                            ProgressRef progress) {
    std::vector<PageRun> pieces;
    for (PageRun run : resident_.runs()) {
      for (; run.num_bytes() > kLoadPieceBytes; run.begin += kLoadPieceBytes) {
        pieces.push_back(
            {run.file_idx, run.begin, run.begin + kLoadPieceBytes});
      }
      pieces.push_back(run);
    }
    uint64_t asked_bytes = 0;
    uint64_t done_bytes = 0;
    size_t num_asked = 0;
    for (const PageRun& piece : pieces) {
      while (num_asked < pieces.size() &&
             asked_bytes < done_bytes + kLoadAheadBytes) {
        const PageRun& next = pieces[num_asked++];
        FetchExactly(*files[next.file_idx].file, next);
        asked_bytes += next.num_bytes();
      }
      LOWMEM_RETURN_IF_ERROR(Explain(files[piece.file_idx].mapping->Populate(
                                         piece.begin, piece.num_bytes()),
                                     piece.file_idx));
      window_->held().DropAround(piece);
      done_bytes += piece.num_bytes();
      LOWMEM_RETURN_IF_ERROR(progress(done_bytes, resident_.num_bytes()));
    }
    for (const auto& file : checkpoint_.files()) {
      LOWMEM_RETURN_IF_ERROR(file->CheckUnchanged());
    }
    return absl::OkStatus();
  }

  const Checkpoint& checkpoint_;
  PlannedRows rows_;
  MemoryCharge charge_;
  PageSet resident_;
  std::vector<std::unique_ptr<FileMapping>> mappings_;  // as files()
  std::vector<bool> check_is_due_;                      // as files()
  uint64_t resident_weight_bytes_ = 0;
  bool is_streamed_leased_ = false;
  std::optional<PageRun> looked_up_;
  std::optional<MappedWindow> window_;  // gives back pages of the mappings
};

}  // namespace

absl::StatusOr<std::unique_ptr<BoundedMmapSource>> NewBoundedMmapSource(
    const Checkpoint& checkpoint, const ResidencyPlan& plan,
    uint64_t window_bytes, MemoryAccount& account, ProgressRef progress) {
  LOWMEM_ASSIGN_OR_RETURN(PlannedRows rows,
                          PlannedRows::Create(checkpoint, plan));
  auto source =
      std::make_unique<WindowedMmapSource>(checkpoint, std::move(rows));
  LOWMEM_RETURN_IF_ERROR(source->Open(plan, window_bytes, account, progress));
  return source;
}

}  // namespace lowmem
