// SPDX-License-Identifier: Apache-2.0
// What a mapping takes of memory when only a part of a model stays in it, and
// the plan that fits a number of bytes. Pure functions of sizes and places in
// files: a forecast and a running source agree by construction.

#ifndef LOWMEM_STORAGE_MAPPED_PLAN_H_
#define LOWMEM_STORAGE_MAPPED_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "storage/checkpoint.h"
#include "storage/page_runs.h"
#include "storage/residency_plan.h"

namespace lowmem {

// At most, at any moment, in whole pages. The pages are in the page cache and,
// most of them, in the resident set of the process: the same memory, to be
// counted once.
struct MappedFootprint {
  uint64_t resident_bytes = 0;  // pages of resident rows, each once
  uint64_t window_bytes = 0;    // of rows that stream
  uint64_t lookup_bytes = 0;    // of a row that is looked up
  // Of the kernel for this process, outside of its resident set.
  uint64_t page_table_bytes = 0;

  // In the page cache, and at most that in the process.
  uint64_t mapped_bytes() const {
    return resident_bytes + window_bytes + lookup_bytes;
  }
  uint64_t total_bytes() const { return mapped_bytes() + page_table_bytes; }
};

// The pages of the plan's resident rows. Rows of a checkpoint that was opened:
// no sum overflows.
PageSet ResidentPages(const Checkpoint& checkpoint, const ResidencyPlan& plan);

// Of a source over this plan: see NewBoundedMmapSource.
MappedFootprint FootprintOfMapped(const Checkpoint& checkpoint,
                                  const ResidencyPlan& plan,
                                  uint64_t window_bytes);

struct MappedPlan {
  ResidencyPlan residency;
  uint64_t window_bytes = 0;
  MappedFootprint footprint;
};

// What it takes at least: norms, biases and the smallest window; and at most:
// all weights. `request` is DescribeSteps'; its bytes do not matter. UINT64_MAX
// where sizes do not fit 63 bits.
struct MappedBounds {
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
};
MappedBounds BoundsOfMapped(const Checkpoint& checkpoint,
                            const ResidencyRequest& request);

// The plan for `available_bytes`. The more bytes, the more rows are resident
// and the larger the window, up to 8 MiB; what is available is used to within
// the pages at the ends of the resident rows.
// Errors: kResourceExhausted below least_bytes; those of PlanResidency.
absl::StatusOr<MappedPlan> PlanMapped(const Checkpoint& checkpoint,
                                      const ResidencyRequest& request,
                                      uint64_t available_bytes);

}  // namespace lowmem

#endif  // LOWMEM_STORAGE_MAPPED_PLAN_H_
