// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/progress.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/cli/console.h"
#include "storage/base/units.h"

namespace lowmem::cli {
namespace {

constexpr std::chrono::milliseconds kPatience(1000);
constexpr std::chrono::milliseconds kRedrawInterval(100);
constexpr size_t kBarChars = 24;

std::string Amount(ProgressUnit unit, uint64_t number) {
  return unit == ProgressUnit::kBytes ? FormatBytes(number)
                                      : absl::StrCat(number);
}

}  // namespace

std::string ProgressLine(absl::string_view label, ProgressUnit unit,
                         uint64_t done, uint64_t total) {
  const double share =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / total);
  const size_t filled = static_cast<size_t>(share * kBarChars);
  return absl::StrFormat(
      "%s [%s%s] %3d %%, %s of %s", label, std::string(filled, '#'),
      std::string(kBarChars - filled, '-'), static_cast<int>(share * 100),
      Amount(unit, done), Amount(unit, total));
}

Progress::Progress(absl::string_view label, bool quiet, ProgressUnit unit)
    : label_(label),
      unit_(unit),
      enabled_(!quiet && isatty(STDERR_FILENO) == 1),
      next_draw_(Clock::now() + kPatience) {}

Progress::~Progress() {
  if (drawn_) WriteError("\r\033[K");
}

void Progress::Update(uint64_t done, uint64_t total) {
  if (!enabled_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawInterval;
  drawn_ = true;
  WriteError(
      absl::StrCat("\r", ProgressLine(label_, unit_, done, total), "\033[K"));
}

}  // namespace lowmem::cli
