// SPDX-License-Identifier: Apache-2.0
#include "engine/cli/console.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace lowmem::cli {
namespace {

// 0, or the errno of the failure.
int WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      // Someone else made the shared descriptor non-blocking: wait as a
      // blocking write would.
      pollfd ready = {fd, POLLOUT, 0};
      if (poll(&ready, 1, -1) < 0 && errno != EINTR) return errno;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

absl::Status Console::Write(absl::string_view text) {
  const int error = WriteAll(STDOUT_FILENO, text);
  if (error == 0) return absl::OkStatus();
  reader_gone_ = error == EPIPE;
  return absl::UnavailableError(
      absl::StrCat("stdout: write failed: ", std::strerror(error)));
}

void Console::Note(absl::string_view text) const {
  if (!quiet_) WriteError(text);
}

void WriteError(absl::string_view text) { WriteAll(STDERR_FILENO, text); }

}  // namespace lowmem::cli
