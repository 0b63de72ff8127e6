// SPDX-License-Identifier: Apache-2.0
#include "storage/mapped_plan.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"
#include "storage/file.h"
#include "storage/mapped_window.h"
#include "storage/stream_order.h"

namespace lowmem {
namespace {

// Below this a window costs more processor time than it saves memory: pieces of
// 64 KiB cost 1.5 times those of 128 KiB.
constexpr uint64_t kLeastWindowBytes = kMiB;
// Pieces of the size beyond which larger ones gain nothing.
constexpr uint64_t kUsualWindowBytes = 8 * kMiB;
// The part of what is left that goes to the window, as long as it is smaller
// than the usual one: a small one makes every pass slow, a few rows less do
// not.
constexpr uint64_t kWindowShare = 2;

// Of the levels above the last: their tables map as many tables as those map
// pages, and the ends of a file may lie in two on each level.
constexpr uint64_t kUpperTables = 4;

uint64_t LeastWindow(uint64_t max_row_bytes) {
  return std::max(kLeastWindowBytes,
                  SmallestWindowBytes(max_row_bytes, PageBytes()));
}

uint64_t WindowFor(uint64_t spare_bytes, uint64_t max_row_bytes) {
  const uint64_t least = LeastWindow(max_row_bytes);
  const uint64_t usual = std::max(least, kUsualWindowBytes);
  const uint64_t window = std::min(usual, least + spare_bytes / kWindowShare);
  return window - window % PageBytes();
}

uint64_t PageTableBytes(const Checkpoint& checkpoint, const PageSet& resident,
                        bool streams) {
  const uint64_t span_bytes = PageTableSpanBytes();
  // A piece lies in two spans at most, if it is not larger than a span.
  uint64_t num_tables = resident.CountUnits(span_bytes) +
                        (streams ? 2 * kMaxWindowPieces + 2 : 0);
  uint64_t num_all = 0;
  uint64_t num_upper = 0;
  for (const auto& file : checkpoint.files()) {
    const uint64_t num_spans = file->size_bytes() / span_bytes + 1;
    // The table of the last span is not given back.
    num_tables += streams;
    num_all += num_spans;
    num_upper += kUpperTables + num_spans / (span_bytes / PageBytes());
  }
  return (std::min(num_tables, num_all) + num_upper) * PageBytes();
}

// The plan that keeps what `row_bytes` hold, as PlanResidency counts them.
absl::StatusOr<ResidencyPlan> PlanRows(const ResidencyRequest& request,
                                       uint64_t row_bytes) {
  ResidencyRequest of_rows = request;
  of_rows.available_bytes = row_bytes;
  of_rows.ring_bytes = 0;
  return PlanResidency(of_rows);
}

// Enough for every row of the request.
uint64_t AllRowBytes(const ResidencyRequest& request) {
  uint64_t num_bytes = 0;
  const auto add = [&num_bytes](const std::vector<TensorUse>& uses) {
    for (const TensorUse& use : uses) {
      num_bytes +=
          use.num_rows * use.row_bytes + ResidencyPlan::kAlignmentBytes;
    }
  };
  for (const auto& step : request.steps) add(step);
  add(request.looked_up);
  return num_bytes;
}

// The plan of most row bytes, up to all, for which fits(plan) holds. REQUIRES:
// it holds for the least.
template <typename Fits>
absl::StatusOr<ResidencyPlan> LargestPlan(const ResidencyRequest& request,
                                          Fits fits) {
  uint64_t fitting = LeastResidentBytes(request);
  uint64_t too_many = AllRowBytes(request);
  LOWMEM_ASSIGN_OR_RETURN(ResidencyPlan best, PlanRows(request, too_many));
  if (fits(best)) return best;
  LOWMEM_ASSIGN_OR_RETURN(best, PlanRows(request, fitting));
  // A page is the least that would change anything.
  while (too_many - fitting > PageBytes()) {
    const uint64_t row_bytes = fitting + (too_many - fitting) / 2;
    LOWMEM_ASSIGN_OR_RETURN(ResidencyPlan plan, PlanRows(request, row_bytes));
    if (fits(plan)) {
      fitting = row_bytes;
      best = std::move(plan);
    } else {
      too_many = row_bytes;
    }
  }
  return best;
}

}  // namespace

PageSet ResidentPages(const Checkpoint& checkpoint, const ResidencyPlan& plan) {
  return PageSet(ResidentRanges(checkpoint, plan), PageBytes());
}

MappedFootprint FootprintOfMapped(const Checkpoint& checkpoint,
                                  const ResidencyPlan& plan,
                                  uint64_t window_bytes) {
  const PageSet resident = ResidentPages(checkpoint, plan);
  MappedFootprint footprint;
  footprint.resident_bytes = resident.num_bytes();
  uint64_t max_row_bytes = 0;  // of those that are not resident
  const auto look_at = [&max_row_bytes](const TensorPlacement& tensor) {
    if (tensor.streamed_bytes() == 0) return;
    max_row_bytes = std::max(max_row_bytes, tensor.row_bytes);
  };
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& tensor : step) look_at(tensor);
  }
  for (const TensorPlacement& tensor : plan.looked_up) look_at(tensor);
  const bool streams = max_row_bytes > 0;
  if (streams) {
    footprint.window_bytes = window_bytes;
    footprint.lookup_bytes = MaxPageBytesOfRow(max_row_bytes, PageBytes());
  }
  footprint.page_table_bytes = PageTableBytes(checkpoint, resident, streams);
  return footprint;
}

MappedBounds BoundsOfMapped(const Checkpoint& checkpoint,
                            const ResidencyRequest& request) {
  constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();
  const absl::StatusOr<ResidencyPlan> least =
      PlanRows(request, LeastResidentBytes(request));
  if (!least.ok()) return {.least_bytes = kTooMuch, .most_bytes = kTooMuch};
  const absl::StatusOr<ResidencyPlan> most =
      PlanRows(request, AllRowBytes(request));
  if (!most.ok()) return {.least_bytes = kTooMuch, .most_bytes = kTooMuch};
  const uint64_t most_bytes =
      FootprintOfMapped(checkpoint, *most, 0).total_bytes();
  const uint64_t window_bytes = LeastWindow(MaxRowBytes(request));
  return {
      // A model may be smaller than a window.
      .least_bytes = std::min(
          most_bytes,
          FootprintOfMapped(checkpoint, *least, window_bytes).total_bytes()),
      .most_bytes = most_bytes};
}

absl::StatusOr<MappedPlan> PlanMapped(const Checkpoint& checkpoint,
                                      const ResidencyRequest& request,
                                      uint64_t available_bytes) {
  const uint64_t max_row_bytes = MaxRowBytes(request);
  const uint64_t least_bytes = BoundsOfMapped(checkpoint, request).least_bytes;
  if (available_bytes < least_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mmap: expected at least ", FormatBytes(least_bytes),
                     " for norms and a window of the file, got ",
                     FormatBytes(available_bytes)));
  }
  MappedPlan plan;
  plan.window_bytes = WindowFor(available_bytes - least_bytes, max_row_bytes);
  LOWMEM_ASSIGN_OR_RETURN(
      plan.residency, LargestPlan(request, [&](const ResidencyPlan& tried) {
        return FootprintOfMapped(checkpoint, tried, plan.window_bytes)
                   .total_bytes() <= available_bytes;
      }));
  plan.footprint =
      FootprintOfMapped(checkpoint, plan.residency, plan.window_bytes);
  return plan;
}

}  // namespace lowmem
