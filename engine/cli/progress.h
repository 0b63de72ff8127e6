// SPDX-License-Identifier: Apache-2.0
// A progress bar for work that takes longer than a second, on terminals only.

#ifndef LOWMEM_ENGINE_CLI_PROGRESS_H_
#define LOWMEM_ENGINE_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lowmem::cli {

inline constexpr char kCopyingWeights[] = "copying weights";

enum class ProgressUnit { kBytes, kTokens };

// One line on stderr, redrawn in place and wiped when destroyed.
// Thread safety: one thread at a time.
class Progress {
 public:
  // Never draws when `quiet` or when stderr is no terminal.
  Progress(absl::string_view label, bool quiet,
           ProgressUnit unit = ProgressUnit::kBytes);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough to be called for every block.
  void Update(uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string label_;
  const ProgressUnit unit_;
  const bool enabled_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

// "copying weights [########------------]  41 %, 1.2 GiB of 2.9 GiB".
std::string ProgressLine(absl::string_view label, ProgressUnit unit,
                         uint64_t done, uint64_t total);

}  // namespace lowmem::cli

#endif  // LOWMEM_ENGINE_CLI_PROGRESS_H_
