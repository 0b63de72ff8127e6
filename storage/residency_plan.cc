// SPDX-License-Identifier: Apache-2.0
#include "storage/residency_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "storage/base/checked_math.h"
#include "storage/base/status_macros.h"
#include "storage/base/units.h"

namespace lowmem {
namespace {

// Disks are slower with smaller requests, and the last one of a piece is
// smaller than a buffer: with pieces of four buffers of 256 KiB it costs
// little. Less than the usual ring, so that its reading still spreads over
// neighbouring matrices.
constexpr uint64_t kMinPieceBytes = kMiB;

constexpr uint64_t kMaxTotalBytes = std::numeric_limits<int64_t>::max();

// value * numerator / denominator, rounded down; exact for all of 64 bits.
uint64_t Share(uint64_t value, uint64_t numerator, uint64_t denominator) {
  return absl::Uint128Low64(absl::uint128(value) * numerator / denominator);
}

struct Totals {
  uint64_t num_tensors = 0;
  uint64_t fixed_bytes = 0;       // may not stream
  uint64_t streamable_bytes = 0;  // of the steps
  uint64_t looked_up_bytes = 0;
};

// Of the sum, which AddUp has proved.
uint64_t FixedBytes(const Totals& totals) {
  return totals.fixed_bytes +
         totals.num_tensors * ResidencyPlan::kAlignmentBytes;
}

absl::StatusOr<Totals> AddUp(const ResidencyRequest& request) {
  Totals totals;
  uint64_t sum = 0;
  absl::flat_hash_set<std::pair<TensorId, uint64_t>> seen;
  const auto add = [&](const TensorUse& use, uint64_t& part) -> absl::Status {
    if (!seen.emplace(use.tensor, use.row_begin).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "residency plan: tensor ", use.tensor, ": used twice in a pass"));
    }
    const std::optional<uint64_t> size_bytes =
        CheckedMul(use.num_rows, use.row_bytes);
    const std::optional<uint64_t> padded =
        size_bytes ? CheckedAdd(*size_bytes, ResidencyPlan::kAlignmentBytes)
                   : std::nullopt;
    const std::optional<uint64_t> new_sum =
        padded ? CheckedAdd(sum, *padded) : std::nullopt;
    if (!new_sum || *new_sum > kMaxTotalBytes) {
      return absl::OutOfRangeError(
          "residency plan: the tensors exceed 2^63 bytes");
    }
    sum = *new_sum;
    part += *size_bytes;
    ++totals.num_tensors;
    return absl::OkStatus();
  };
  for (const auto& step : request.steps) {
    for (const TensorUse& use : step) {
      LOWMEM_RETURN_IF_ERROR(add(
          use, use.may_stream ? totals.streamable_bytes : totals.fixed_bytes));
    }
  }
  for (const TensorUse& use : request.looked_up) {
    LOWMEM_RETURN_IF_ERROR(add(use, totals.looked_up_bytes));
  }
  return totals;
}

// The tensors of a step that stream in part: as many of its largest ones as
// give pieces of kMinPieceBytes, and no fewer than can stream `streamed_bytes`
// together.
std::vector<size_t> ChooseStreamed(const std::vector<TensorPlacement>& step,
                                   std::vector<size_t> candidates,
                                   uint64_t streamed_bytes) {
  const auto size_bytes = [&](size_t i) {
    return step[i].num_rows * step[i].row_bytes;
  };
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [&](size_t a, size_t b) { return size_bytes(a) > size_bytes(b); });
  size_t num_chosen = 0;
  uint64_t sum = 0;
  for (size_t n = 0; n < candidates.size(); ++n) {
    const uint64_t smallest = size_bytes(candidates[n]);
    const bool is_enough = sum >= streamed_bytes;
    sum += smallest;
    if (is_enough && Share(streamed_bytes, smallest, sum) < kMinPieceBytes) {
      break;
    }
    num_chosen = n + 1;
  }
  candidates.resize(num_chosen);
  std::sort(candidates.begin(), candidates.end());  // back to order of use
  return candidates;
}

// Streams at least `streamed_bytes` of the step, by less than a row more.
// Returns how many bytes. REQUIRES: the candidates are all resident and hold as
// much.
uint64_t StreamFromStep(const std::vector<size_t>& candidates,
                        uint64_t streamed_bytes,
                        std::vector<TensorPlacement>& step) {
  if (streamed_bytes == 0) return 0;
  const std::vector<size_t> chosen =
      ChooseStreamed(step, candidates, streamed_bytes);
  uint64_t total_bytes = 0;
  for (const size_t i : chosen) total_bytes += step[i].resident_bytes();
  uint64_t seen_bytes = 0;
  uint64_t done_bytes = 0;
  for (const size_t i : chosen) {
    TensorPlacement& tensor = step[i];
    seen_bytes += tensor.resident_bytes();
    const uint64_t target = Share(streamed_bytes, seen_bytes, total_bytes);
    if (target <= done_bytes) continue;
    // Rounded up, so the sum is never below the target.
    const uint64_t rows =
        (target - done_bytes + tensor.row_bytes - 1) / tensor.row_bytes;
    tensor.resident_rows -= std::min(rows, tensor.resident_rows);
    done_bytes += tensor.streamed_bytes();
  }
  return done_bytes;
}

// Streams of each step its share of what `resident_bytes` cannot hold.
void SpreadOverSteps(const ResidencyRequest& request, const Totals& totals,
                     uint64_t resident_bytes, ResidencyPlan& plan) {
  const uint64_t streamed_bytes = totals.streamable_bytes - resident_bytes;
  uint64_t seen_bytes = 0;
  uint64_t done_bytes = 0;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    std::vector<size_t> candidates;
    uint64_t step_bytes = 0;
    for (size_t i = 0; i < plan.steps[s].size(); ++i) {
      if (!request.steps[s][i].may_stream) continue;
      const uint64_t size_bytes = plan.steps[s][i].resident_bytes();
      if (size_bytes == 0) continue;
      candidates.push_back(i);
      step_bytes += size_bytes;
    }
    if (candidates.empty()) continue;
    seen_bytes += step_bytes;
    const uint64_t target =
        Share(streamed_bytes, seen_bytes, totals.streamable_bytes);
    if (target <= done_bytes) continue;
    done_bytes += StreamFromStep(
        candidates, std::min(target - done_bytes, step_bytes), plan.steps[s]);
  }
}

TensorPlacement AllResident(const TensorUse& use) {
  return {.tensor = use.tensor,
          .num_rows = use.num_rows,
          .row_bytes = use.row_bytes,
          .resident_rows = use.num_rows,
          .row_begin = use.row_begin};
}

void CountBytes(ResidencyPlan& plan) {
  const auto count = [&plan](const TensorPlacement& tensor) {
    const uint64_t num_bytes = tensor.resident_bytes();
    plan.resident_bytes += num_bytes;
    // Sums were proved with the alignment of every tensor included.
    plan.block_bytes +=
        CheckedRoundUp(num_bytes, ResidencyPlan::kAlignmentBytes)
            .value_or(num_bytes);
  };
  for (const auto& step : plan.steps) {
    for (const TensorPlacement& tensor : step) {
      count(tensor);
      plan.streamed_bytes_per_pass += tensor.streamed_bytes();
    }
  }
  for (const TensorPlacement& tensor : plan.looked_up) count(tensor);
}

}  // namespace

uint64_t LeastResidentBytes(const ResidencyRequest& request) {
  const absl::StatusOr<Totals> totals = AddUp(request);
  if (!totals.ok()) return std::numeric_limits<uint64_t>::max();
  return FixedBytes(*totals);
}

absl::StatusOr<ResidencyPlan> PlanResidency(const ResidencyRequest& request) {
  LOWMEM_ASSIGN_OR_RETURN(const Totals totals, AddUp(request));
  const uint64_t fixed_bytes = FixedBytes(totals);

  ResidencyPlan plan;
  for (const auto& step : request.steps) {
    auto& placed = plan.steps.emplace_back();
    for (const TensorUse& use : step) placed.push_back(AllResident(use));
  }
  for (const TensorUse& use : request.looked_up) {
    plan.looked_up.push_back(AllResident(use));
  }

  plan.ring_bytes = request.ring_bytes;
  const std::optional<uint64_t> needed =
      CheckedAdd(fixed_bytes, request.ring_bytes);
  if (!needed || request.available_bytes < *needed) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "stream: expected at least ", FormatBytes(fixed_bytes),
        " for norms and biases and ", FormatBytes(request.ring_bytes),
        " for reading, got ", FormatBytes(request.available_bytes)));
  }
  uint64_t left_bytes = request.available_bytes - *needed;
  const uint64_t resident_bytes = std::min(left_bytes, totals.streamable_bytes);
  SpreadOverSteps(request, totals, resident_bytes, plan);
  left_bytes -= resident_bytes;
  for (TensorPlacement& tensor : plan.looked_up) {
    if (tensor.row_bytes == 0) continue;
    tensor.resident_rows =
        std::min(tensor.num_rows, left_bytes / tensor.row_bytes);
    left_bytes -= tensor.resident_bytes();
  }
  CountBytes(plan);
  return plan;
}

}  // namespace lowmem
