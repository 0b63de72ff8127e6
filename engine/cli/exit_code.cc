// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/exit_code.h"

#include "absl/strings/str_cat.h"
#include "storage/base/printable.h"

namespace lowmem::cli {
namespace {

struct Row {
  int exit_code;
  absl::StatusCode status_code;
  absl::string_view meaning;
};

constexpr Row kRows[] = {
    {kExitOk, absl::StatusCode::kOk, "done"},
    {kExitUsage, absl::StatusCode::kInvalidArgument,
     "wrong usage: an option, a prompt or a token id that cannot be taken"},
    {kExitUsage, absl::StatusCode::kOutOfRange, ""},
    {kExitNotFound, absl::StatusCode::kNotFound,
     "a named file, folder or shard is absent"},
    {kExitDamaged, absl::StatusCode::kDataLoss,
     "a file is damaged, or files contradict one another"},
    {kExitUnsupported, absl::StatusCode::kUnimplemented,
     "valid, but not supported"},
    {kExitBudget, absl::StatusCode::kResourceExhausted,
     "does not fit the memory budget, or the machine's memory"},
    {kExitIo, absl::StatusCode::kUnavailable,
     "reading or writing failed while running"},
    {kExitBug, absl::StatusCode::kInternal, "a fault of lowmem itself"},
    {kExitInterrupted, absl::StatusCode::kCancelled,
     "interrupted; what was completed has been printed"},
};

// Longer than any message of ours; a bound all the same, since parts of it come
// from files.
constexpr size_t kMaxMessageChars = 2000;

}  // namespace

absl::string_view ExitCodeMeaning(int exit_code) {
  for (const Row& row : kRows) {
    if (row.exit_code == exit_code) return row.meaning;
  }
  return "";
}

int ExitCodeOf(const absl::Status& status) {
  for (const Row& row : kRows) {
    if (row.status_code == status.code()) return row.exit_code;
  }
  return kExitBug;
}

absl::StatusCode StatusCodeOfExit(int exit_code) {
  for (const Row& row : kRows) {
    if (row.exit_code == exit_code) return row.status_code;
  }
  return absl::StatusCode::kInternal;
}

std::string ErrorLine(const absl::Status& status) {
  return absl::StrCat(
      "lowmem-run: ", Printable(status.message(), kMaxMessageChars), "\n");
}

}  // namespace lowmem::cli
