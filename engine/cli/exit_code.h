// SPDX-License-Identifier: Apache-2.0
// The exit codes that scripts rely on, and how a status becomes one.

#ifndef LOWMEM_ENGINE_CLI_EXIT_CODE_H_
#define LOWMEM_ENGINE_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace lowmem::cli {

// Part of the command line's contract: never change a number.
enum ExitCode : int {
  kExitOk = 0,
  kExitUsage = 2,
  kExitNotFound = 3,
  kExitDamaged = 4,
  kExitUnsupported = 5,
  kExitBudget = 6,
  kExitIo = 7,
  kExitBug = 70,
  kExitInterrupted = 130,
};

// What each code means, in one line; for the manual. Empty for other numbers.
absl::string_view ExitCodeMeaning(int exit_code);

// Codes that no layer returns on purpose count as our bug.
int ExitCodeOf(const absl::Status& status);

// The way back, for reporting the failure of a child process of ours.
absl::StatusCode StatusCodeOfExit(int exit_code);

// "lowmem-run: <message>\n", on one line whatever the message holds.
std::string ErrorLine(const absl::Status& status);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_EXIT_CODE_H_
