// SPDX-License-Identifier: Apache-2.0
#include "engine/text/id_output.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "storage/base/status_macros.h"

namespace lowmem {
namespace {

constexpr size_t kBlockIds = 4096;  // charged together

}  // namespace

void IdOutput::SetAside(size_t num_ids) {
  ids_.reserve(std::min(num_ids, max_ids_));
}

absl::Status IdOutput::CheckRoom(size_t num_ids) const {
  if (num_ids <= max_ids_ - ids_.size()) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("text has too many tokens; expected at most ", max_ids_));
}

absl::Status IdOutput::MakeRoom(size_t num_ids) {
  LOWMEM_RETURN_IF_ERROR(CheckRoom(num_ids));
  const size_t needed = ids_.size() + num_ids;
  if (needed > ids_.capacity()) {
    // While they move both places are there.
    const size_t grown = std::min(std::max(2 * needed, kBlockIds), max_ids_);
    LOWMEM_ASSIGN_OR_RETURN(
        MemoryCharge charge,
        MemoryAccount::ReserveIn(account_, grown * sizeof(int32_t)));
    ids_.reserve(grown);
    charge_ = std::move(charge);
    return absl::OkStatus();
  }
  const size_t num_charged = charge_.num_bytes() / sizeof(int32_t);
  if (account_ == nullptr || needed <= num_charged) return absl::OkStatus();
  const size_t num_blocks = (needed - num_charged + kBlockIds - 1) / kBlockIds;
  LOWMEM_ASSIGN_OR_RETURN(
      MemoryCharge more,
      account_->Reserve(
          std::min(num_blocks * kBlockIds, ids_.capacity() - num_charged) *
          sizeof(int32_t)));
  charge_.Add(std::move(more));
  return absl::OkStatus();
}

absl::Status IdOutput::Append(absl::Span<const int32_t> ids) {
  LOWMEM_RETURN_IF_ERROR(MakeRoom(ids.size()));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status IdOutput::AppendAgain(size_t begin, size_t count) {
  LOWMEM_RETURN_IF_ERROR(MakeRoom(count));
  for (size_t i = begin; i < begin + count; ++i) ids_.push_back(ids_[i]);
  return absl::OkStatus();
}

}  // namespace lowmem
