// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/console.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/cli/signals.h"

namespace lowmem::cli {
namespace {

// A reader who has taken nothing between so many signals that wake us, a
// fiftieth of a second each, is not waited for once we are to end.
constexpr int kMaxIdleWakes = 5;

// Waits where someone else made the shared descriptor non-blocking, as a
// blocking write would.
ssize_t BlockingWrite(int fd, absl::string_view text) {
  const ssize_t written = write(fd, text.data(), text.size());
  if (written >= 0 || errno != EAGAIN) return written;
  pollfd ready = {fd, POLLOUT, 0};
  return poll(&ready, 1, -1) < 0 ? -1 : 0;
}

// 0, or the errno of the failure; EINTR only once interrupted.
int WriteAll(int fd, absl::string_view text) {
  int num_idle_wakes = 0;
  while (!text.empty()) {
    const ssize_t written = BlockingWrite(fd, text);
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
      num_idle_wakes = 0;
    } else if (errno != EINTR) {
      return errno;
    } else if (Interrupted() && ++num_idle_wakes == kMaxIdleWakes) {
      return EINTR;
    }
  }
  return 0;
}

}  // namespace

absl::Status Console::Write(absl::string_view text) {
  const int error = WriteAll(STDOUT_FILENO, text);
  if (error == 0) return absl::OkStatus();
  if (error == EINTR) return CheckInterrupted();
  reader_gone_ = error == EPIPE;
  return absl::UnavailableError(
      absl::StrCat("stdout: write failed: ", std::strerror(error)));
}

void Console::Note(absl::string_view text) const {
  if (!quiet_) WriteError(text);
}

void WriteError(absl::string_view text) { WriteAll(STDERR_FILENO, text); }

}  // namespace lowmem::cli
